#include "load/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/test_folder.h"
#include "load/model_folder.h"
#include "load/open.h"

namespace mooring {
namespace {

using ::testing::HasSubstr;

// A file of this directory, padded as writers do, and so many bytes of data.
std::string FileOf(std::string directory, size_t data_bytes) {
  while (directory.size() % 8 != 0) directory += ' ';
  const uint64_t length = directory.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += directory;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

std::string Good() {
  return FileOf(R"({"__metadata__": {"format": "pt"},
    "b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [16, 40]},
    "ids": {"dtype": "I64", "shape": [1, 2], "data_offsets": [0, 16]},
    "c": {"dtype": "BF16", "shape": [4], "data_offsets": [40, 48]},
    "one": {"dtype": "F32", "shape": [], "data_offsets": [48, 52]}})",
                52);
}

Result<std::vector<NamedTensor>> Parse(const std::string& file) {
  // Exactly as long as it is, so that a sanitizer sees every read beyond.
  const std::vector<char> exact(file.begin(), file.end());
  auto tensors = ParseSafetensors(std::as_bytes(std::span(exact)), "file");
  if (tensors.ok()) {
    for (NamedTensor& tensor : *tensors) tensor.view.data = nullptr;  // gone with `exact`
  }
  return tensors;
}

void ExpectRefused(const std::string& file, const std::string& where, const std::string& found) {
  const auto parsed = Parse(file);
  ASSERT_FALSE(parsed.ok()) << where;
  EXPECT_EQ(parsed.error().kind, ErrorKind::kModelInvalid);
  EXPECT_THAT(parsed.error().where, HasSubstr(where));
  EXPECT_THAT(parsed.error().found, HasSubstr(found));
  EXPECT_FALSE(parsed.error().expected.empty());
}

TEST(Safetensors, ReadsWeightsInTheirPlaces) {
  const std::string file = Good();
  const auto tensors = ParseSafetensors(std::as_bytes(std::span(file)), "file");
  ASSERT_TRUE(tensors.ok()) << tensors.error().Message();
  ASSERT_EQ(tensors->size(), 3U) << "whole numbers are no weights";
  const NamedTensor& b = (*tensors)[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.view.dtype, DType::kF32);
  EXPECT_EQ(b.view.rank, 2);
  EXPECT_EQ(b.view.rows(), 2);
  EXPECT_EQ(b.view.columns(), 3);
  EXPECT_EQ(b.view.data[0], std::byte{16});
  EXPECT_EQ(static_cast<uint8_t>(file[b.file_offset]), 16);
  EXPECT_EQ((*tensors)[1].view.dtype, DType::kBF16);
  EXPECT_EQ((*tensors)[2].view.rank, 1);
  EXPECT_EQ((*tensors)[2].view.columns(), 1);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string file = Good();
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(Parse(file.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(Parse(file + "x").ok()) << "a byte of no tensor";
}

// Every flipped byte is refused or read without harm: the sanitizers watch.
TEST(Safetensors, SurvivesEveryFlippedByte) {
  const std::string file = Good();
  for (size_t i = 0; i < file.size() - 52; ++i) {
    for (const char flip : {'\x01', '\x04', '\x20', '\x80'}) {
      std::string bad = file;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      (void)Parse(bad).ok();
    }
  }
}

TEST(Safetensors, NamesWhatIsWrong) {
  ExpectRefused(std::string(8, '\xff') + "{}", "length of the directory", "18446744073709551615");
  ExpectRefused(FileOf("[1]", 0), "the directory", "something else");
  ExpectRefused(FileOf(R"({"a": [[[1]]]})", 0), "the directory", "more");
  ExpectRefused(FileOf("{\"a\": " + std::string(100000, '['), 0), "the directory", "more");
  const auto entry = [](const std::string& inside, size_t bytes) {
    return FileOf(R"({"a": {)" + inside + "}}", bytes);
  };
  const std::string type = R"("dtype": "F32", )";
  ExpectRefused(FileOf(R"({"a": 1})", 0), "type of tensor 'a'", "none");
  ExpectRefused(entry(R"("dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1])", 1), "type of",
                "F8_E4M3");
  ExpectRefused(entry(type + R"("shape": [1], "data_offsets": [0, 8])", 4), "data_offsets",
                "0 and 8");
  ExpectRefused(entry(type + R"("shape": [1], "data_offsets": [4, 0])", 4), "data_offsets",
                "4 and 0");
  ExpectRefused(entry(type + R"("shape": [1], "data_offsets": [-4, 0])", 4), "data_offsets",
                "something else");
  ExpectRefused(entry(type + R"("shape": [1], "data_offsets": [0])", 4), "data_offsets",
                "something else");
  ExpectRefused(entry(type + R"("shape": [2], "data_offsets": [0, 4])", 4), "size of", "4");
  ExpectRefused(entry(type + R"("shape": [0], "data_offsets": [0, 0])", 0), "shape of", "0");
  ExpectRefused(entry(type + R"("shape": [1.5], "data_offsets": [0, 4])", 4), "shape of",
                "something else");
  ExpectRefused(entry(type + R"("shape": [1, 1, 1, 1, 1], "data_offsets": [0, 4])", 4), "shape of",
                "5");
  ExpectRefused(entry(type + R"("shape": [4294967296, 4294967296], "data_offsets": [0, 0])", 0),
                "size of", "0");
}

TEST(Safetensors, RefusesTwinsHolesAndCrookedPlaces) {
  const std::string a = R"("a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})";
  ExpectRefused(FileOf("{" + a + ", " + a + "}", 4), "tensor 'a'", "second time");
  ExpectRefused(
      FileOf("{" + a + R"(, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 4),
      "data_offsets of tensor 'b'", "0");
  ExpectRefused(
      FileOf("{" + a + R"(, "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})", 12),
      "data_offsets of tensor 'b'", "8");
  ExpectRefused(FileOf(R"({"x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                           "y": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]}})",
                       5),
                "place of tensor 'y'", "");
}

class ModelFolderTest : public testing::Test {
 protected:
  ModelFolderTest() {
    folder_.Write("model.safetensors", Good());
    folder_.Write("config.json",
                  R"({"model_type": "kind", "hidden_size": 4, "eps": 1e-12, "cache": true,
                      "list": [1], "big": 18446744073709551615})");
    folder_.Write("vocab.txt", "[PAD]\r\nthe\n\xc3\xa4\nlast");
  }
  Error Fault() const {
    const auto file = OpenModelFile(folder_.path());
    EXPECT_FALSE(file.ok());
    return file.ok() ? Error{} : file.error();
  }
  TestFolder folder_;
};

TEST_F(ModelFolderTest, ReadsItsThreeFiles) {
  const auto file = OpenModelFile(folder_.path());
  ASSERT_TRUE(file.ok()) << file.error().Message();
  EXPECT_EQ((*file)->container(), "safetensors");
  EXPECT_EQ((*file)->Get<std::string>("general.architecture").value(), "kind");
  EXPECT_EQ((*file)->Get<int64_t>("hidden_size").value(), 4);
  EXPECT_EQ((*file)->Get<double>("eps").value(), 1e-12);
  EXPECT_TRUE((*file)->Get<bool>("cache").value());
  EXPECT_EQ((*file)->FindValue("list"), nullptr);
  EXPECT_EQ((*file)->FindValue("big"), nullptr);
  EXPECT_EQ((*file)->Get<std::vector<std::string>>("vocab.txt").value(),
            (std::vector<std::string>{"[PAD]", "the", "\xc3\xa4", "last"}));
  EXPECT_NE((*file)->FindTensor("b"), nullptr);
}

TEST_F(ModelFolderTest, NamesThePartThatIsMissingOrWrong) {
  folder_.Write("vocab.txt", "");
  EXPECT_THAT(Fault().where, HasSubstr("vocab.txt"));
  folder_.Write("vocab.txt", std::string(2000, 'a'));
  EXPECT_THAT(Fault().where, HasSubstr("vocab.txt, line 1"));
  folder_.Write("config.json", "{}");
  EXPECT_THAT(Fault().where, HasSubstr("config.json, model_type"));
  folder_.Write("config.json", std::string(100000, '['));
  EXPECT_THAT(Fault().where, HasSubstr("config.json"));
  folder_.Write("config.json", "{} and more");
  EXPECT_EQ(Fault().kind, ErrorKind::kModelInvalid);
  std::filesystem::remove(folder_.path() / "config.json");
  EXPECT_EQ(Fault().kind, ErrorKind::kNotFound);
  EXPECT_THAT(Fault().Message(), HasSubstr("config.json"));
}

TEST_F(ModelFolderTest, WeightsAloneSaySo) {
  const auto alone = OpenModelFile(folder_.path() / "model.safetensors");
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(alone.error().found, HasSubstr("name the folder"));
}

}  // namespace
}  // namespace mooring
