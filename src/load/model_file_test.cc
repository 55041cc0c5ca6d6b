#include "load/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "base/test_folder.h"
#include "load/gguf_test_writer.h"
#include "load/mapped_file.h"
#include "load/open.h"
#include "load/verify.h"

namespace mooring {
namespace {

using ::testing::HasSubstr;

std::string SmallFile() {
  return GgufWriter()
      .AddValue("general.architecture", "llama")
      .AddValue("count", uint32_t{7})
      .AddValue("eps", 0.5F)
      .AddValue("names", std::vector<std::string>{"a", "b"})
      .AddTensor("norm", DType::kF32, {8}, std::string(32, 'n'))
      .AddTensor("half", DType::kF16, {2, 4}, std::string(16, 'h'))
      .Build();
}

TEST(MappedFile, MapsAndMoves) {
  const TestFolder folder;
  auto opened = MappedFile::Open(folder.Write("a", "hello"));
  ASSERT_TRUE(opened.ok());
  const std::byte* data = opened->bytes().data();
  MappedFile file = std::move(opened).value();
  EXPECT_EQ(file.bytes().data(), data);
  EXPECT_EQ(file.bytes().size(), 5U);
  file.AdviseWillNeed(file.bytes());
  file.AdviseDontNeed(file.bytes().subspan(1, 2));
  EXPECT_EQ(static_cast<char>(file.bytes()[1]), 'e');
  auto other = MappedFile::Open(folder.Write("b", "other"));
  ASSERT_TRUE(other.ok());
  file = std::move(other).value();
  EXPECT_EQ(file.path(), folder.path() / "b");
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TestFolder folder;
  const auto kind = [](const std::filesystem::path& path) {
    return MappedFile::Open(path).error().kind;
  };
  EXPECT_EQ(kind(folder.path() / "missing"), ErrorKind::kNotFound);
  EXPECT_EQ(kind(folder.path()), ErrorKind::kModelInvalid);
  EXPECT_EQ(kind(folder.Write("empty", "")), ErrorKind::kModelInvalid);
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind(folder.path() / "pipe"), ErrorKind::kModelInvalid);
}

TEST(ModelFile, AnswersByNameAndKind) {
  const TestFolder folder;
  const auto opened = OpenModelFile(folder.Write("m.gguf", SmallFile()));
  ASSERT_TRUE(opened.ok()) << opened.error().Message();
  const ModelFile& file = **opened;
  EXPECT_EQ(file.container(), "GGUF v3");
  EXPECT_EQ(file.tensors().size(), 2U);
  ASSERT_NE(file.FindTensor("half"), nullptr);
  EXPECT_EQ(file.FindTensor("half")->view.rows(), 2);
  EXPECT_EQ(file.FindTensor("none"), nullptr);
  EXPECT_EQ(file.FindValue("none"), nullptr);
  EXPECT_EQ(file.Get<std::string>("general.architecture").value(), "llama");
  EXPECT_EQ(file.Get<int64_t>("count").value(), 7);
  EXPECT_EQ(file.Get<double>("count").value(), 7.0);
  EXPECT_EQ(file.Get<double>("eps").value(), 0.5);
  EXPECT_EQ(file.Get<std::vector<std::string>>("names").value().size(), 2U);
  EXPECT_EQ(file.GetOr<int64_t>("none", 3).value(), 3);
  EXPECT_EQ(file.GetOr<int64_t>("count", 3).value(), 7);
}

TEST(ModelFile, NamesWhatIsWrongWithAValue) {
  const TestFolder folder;
  const auto opened = OpenModelFile(folder.Write("m.gguf", SmallFile()));
  ASSERT_TRUE(opened.ok());
  const ModelFile& file = **opened;
  const auto wrong = file.Get<int64_t>("eps");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, ErrorKind::kModelInvalid);
  EXPECT_THAT(wrong.error().Message(), HasSubstr("key 'eps'"));
  EXPECT_THAT(wrong.error().Message(), HasSubstr("expected an integer, found a float"));
  EXPECT_THAT(file.Get<bool>("none").error().Message(), HasSubstr("found no such key"));
  EXPECT_THAT(file.Get<std::string>("names").error().found, HasSubstr("an array of strings"));
  EXPECT_FALSE(file.GetOr<std::string>("count", "x").ok());
  EXPECT_FALSE(file.Get<std::vector<int64_t>>("count").ok());
}

TEST(OpenModelFile, NamesForeignFiles) {
  const TestFolder folder;
  const auto message = [&](const std::string& content) {
    const auto opened = OpenModelFile(folder.Write("x", content));
    EXPECT_EQ(opened.error().kind, ErrorKind::kModelInvalid);
    return opened.error().Message();
  };
  EXPECT_THAT(message("PK\x03\x04zip"), HasSubstr("zip archive"));
  EXPECT_THAT(message(std::string("\x10\0\0\0\0\0\0\0{\"a\":1}", 15)), HasSubstr("safetensors"));
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1"), HasSubstr("Git LFS"));
  EXPECT_THAT(message("tjgg...."), HasSubstr("GGJT"));
  EXPECT_THAT(message("x"), HasSubstr("starts with 'x'"));
  EXPECT_THAT(message("GGUF"), HasSubstr("version at byte 4"));
}

TEST(Sha256, KnownAnswers) {
  Sha256 hash;
  const std::string text = "abc";
  hash.Update(std::as_bytes(std::span(text)));
  EXPECT_EQ(hash.Finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(IsSha256("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"));
  EXPECT_FALSE(IsSha256("../../x"));
}

TEST(Verify, ReportsAndCompares) {
  const TestFolder folder;
  const auto path = folder.Write("m.gguf", SmallFile());
  const auto report = VerifyModelFile(path);
  ASSERT_TRUE(report.ok()) << report.error().Message();
  EXPECT_EQ(report->architecture, "llama");
  EXPECT_EQ(report->tensor_count, 2U);
  EXPECT_EQ(report->key_count, 4U);
  EXPECT_EQ(report->tensor_bytes, 48U);
  EXPECT_EQ(report->file_bytes, SmallFile().size());
  EXPECT_EQ(report->tensors_per_type.at(DType::kF16), 1U);
  EXPECT_EQ(report->sha256, Sha256OfFile(path).value());
  EXPECT_TRUE(VerifyModelFile(path, report->sha256).ok());
  EXPECT_EQ(VerifyModelFile(path, std::string(64, '0')).error().kind, ErrorKind::kFaultFound);
  EXPECT_EQ(VerifyModelFile(path, "short").error().kind, ErrorKind::kUsage);
  EXPECT_EQ(VerifyModelFile(path, std::nullopt, [](uint64_t) { return false; }).error().kind,
            ErrorKind::kInterrupted);
  EXPECT_EQ(VerifyModelFile(folder.path() / "none").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace mooring
