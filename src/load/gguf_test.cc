#include "load/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "load/gguf_test_writer.h"

namespace mooring {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

// The bytes on the heap, so that a sanitizer sees one byte too far.
Result<GgufDirectory> Parse(const std::string& file) {
  const std::unique_ptr<std::byte[]> copy(new std::byte[file.size()]);
  std::memcpy(copy.get(), file.data(), file.size());
  auto result = ParseGguf({copy.get(), file.size()}, "test.gguf");
  if (result.ok()) {
    unsigned sum = 0;  // touch what the views claim to have
    for (const NamedTensor& tensor : result->tensors) {
      sum += static_cast<unsigned>(tensor.view.data[0]);
      sum += static_cast<unsigned>(tensor.view.data[tensor.view.bytes() - 1]);
    }
    EXPECT_LT(sum, 2U * 256U * 65536U);
  }
  return result;
}

std::string MessageOf(const std::string& file) {
  const auto result = Parse(file);
  if (result.ok()) return "no error";
  EXPECT_EQ(result.error().kind, ErrorKind::kModelInvalid);
  EXPECT_THAT(result.error().where, HasSubstr("test.gguf"));
  EXPECT_THAT(result.error().where, HasSubstr("at byte "));
  EXPECT_FALSE(result.error().expected.empty());
  EXPECT_FALSE(result.error().found.empty());
  return result.error().Message();
}

GgufWriter SmallFile() {
  GgufWriter writer;
  writer.AddValue("general.architecture", "llama")
      .AddValue("a.u8", uint8_t{200})
      .AddValue("a.i8", int8_t{-3})
      .AddValue("a.u16", uint16_t{60000})
      .AddValue("a.i16", int16_t{-300})
      .AddValue("a.u32", uint32_t{4000000000})
      .AddValue("a.i32", int32_t{-70000})
      .AddValue("a.u64", uint64_t{1} << 40)
      .AddValue("a.i64", int64_t{-1} << 40)
      .AddValue("a.f32", 0.5F)
      .AddValue("a.f64", 0.25)
      .AddValue("a.bool", true)
      .AddValue("list.text", std::vector<std::string>{"one", std::string("t\0o", 3), ""})
      .AddValue("list.int", std::vector<uint16_t>{1, 65535})
      .AddValue("list.float", std::vector<float>{1.5F})
      .AddValue("list.bool", std::vector<bool>{true, false})
      .AddTensor("norm", DType::kF32, {8}, std::string(32, 'n'))
      .AddTensor("matrix", DType::kQ4_1, {3, 64}, std::string(3 * 2 * 20, 'm'))
      .AddTensor("half", DType::kF16, {2, 3, 4, 5}, std::string(240, 'h'));
  return writer;
}

class GgufVersion : public testing::TestWithParam<uint32_t> {};

TEST_P(GgufVersion, ReadsEveryKind) {
  const auto result = Parse(SmallFile().Build(GetParam()));
  ASSERT_TRUE(result.ok()) << result.error().Message();
  EXPECT_EQ(result->version, GetParam());
  const auto& values = result->values;
  EXPECT_EQ(values.at("general.architecture"), MetaValue(std::string("llama")));
  EXPECT_EQ(values.at("a.u8"), MetaValue(int64_t{200}));
  EXPECT_EQ(values.at("a.i8"), MetaValue(int64_t{-3}));
  EXPECT_EQ(values.at("a.u16"), MetaValue(int64_t{60000}));
  EXPECT_EQ(values.at("a.i16"), MetaValue(int64_t{-300}));
  EXPECT_EQ(values.at("a.u32"), MetaValue(int64_t{4000000000}));
  EXPECT_EQ(values.at("a.i32"), MetaValue(int64_t{-70000}));
  EXPECT_EQ(values.at("a.u64"), MetaValue(int64_t{1} << 40));
  EXPECT_EQ(values.at("a.i64"), MetaValue(int64_t{-1} << 40));
  EXPECT_EQ(values.at("a.f32"), MetaValue(0.5));
  EXPECT_EQ(values.at("a.f64"), MetaValue(0.25));
  EXPECT_EQ(values.at("a.bool"), MetaValue(true));
  EXPECT_EQ(values.at("list.text"),
            MetaValue(std::vector<std::string>{"one", std::string("t\0o", 3), ""}));
  EXPECT_EQ(values.at("list.int"), MetaValue(std::vector<int64_t>{1, 65535}));
  EXPECT_EQ(values.at("list.float"), MetaValue(std::vector<double>{1.5}));
  EXPECT_EQ(values.at("list.bool"), MetaValue(std::vector<bool>{true, false}));
}

TEST_P(GgufVersion, PlacesTensors) {
  const auto result = Parse(SmallFile().Build(GetParam()));
  ASSERT_TRUE(result.ok()) << result.error().Message();
  ASSERT_EQ(result->tensors.size(), 3U);
  const TensorView& matrix = result->tensors[1].view;
  EXPECT_EQ(result->tensors[1].name, "matrix");
  EXPECT_EQ(matrix.dtype, DType::kQ4_1);
  EXPECT_EQ(matrix.rows(), 3);
  EXPECT_EQ(matrix.columns(), 64);
  EXPECT_EQ(result->tensors[1].file_offset % 32, 0U);
  EXPECT_THAT(result->tensors[2].view.shape, ElementsAre(2, 3, 4, 5));
}

INSTANTIATE_TEST_SUITE_P(Versions, GgufVersion, testing::Values(2U, 3U));

TEST(Gguf, ReadsTheDataThatWasWritten) {
  const std::string file = SmallFile().Build();
  const auto bytes = std::as_bytes(std::span(file));
  const auto result = ParseGguf(bytes, "test.gguf");
  ASSERT_TRUE(result.ok());
  const std::array<char, 3> marks = {'n', 'm', 'h'};
  for (size_t i = 0; i < marks.size(); ++i) {
    const TensorView& view = result->tensors[i].view;
    EXPECT_EQ(view.data, bytes.data() + result->tensors[i].file_offset);
    for (int64_t j = 0; j < view.bytes(); ++j) EXPECT_EQ(static_cast<char>(view.data[j]), marks[i]);
  }
}

TEST(Gguf, ReadsAFileWithoutTensorsOrKeys) {
  EXPECT_TRUE(Parse(GgufWriter().Build()).ok());
  EXPECT_TRUE(Parse(GgufWriter().AddValue("k", 1).Build()).ok());
}

TEST(Gguf, RefusesEveryTruncation) {
  const std::string file = SmallFile().Build();
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string message = MessageOf(file.substr(0, length));
    ASSERT_NE(message, "no error") << "length " << length;
  }
}

TEST(Gguf, SurvivesEveryFlippedByte) {
  const std::string file = SmallFile().Build();
  for (size_t i = 0; i < file.size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xFF, 0x20}) {
      std::string flipped = file;
      flipped[i] = static_cast<char>(flipped[i] ^ mask);
      const auto result = Parse(flipped);
      if (!result.ok()) {
        ASSERT_EQ(result.error().kind, ErrorKind::kModelInvalid);
      }
    }
  }
}

TEST(Gguf, NamesOldAndForeignVersions) {
  const std::string file = SmallFile().Build();
  EXPECT_THAT(MessageOf(SmallFile().Build(1)), HasSubstr("version 1"));
  EXPECT_THAT(MessageOf(SmallFile().Build(4)), HasSubstr("version 4"));
  EXPECT_THAT(MessageOf(SmallFile().Build(0)), HasSubstr("version 0"));
  EXPECT_THAT(MessageOf(SmallFile().Build(0x03000000)), HasSubstr("big-endian"));
  EXPECT_THAT(MessageOf("GGJT" + file.substr(4)), HasSubstr("magic at byte 0"));
}

// One field of the file after another set to the values that break sums and products.
struct FieldCase {
  const char* name;
  std::function<std::string(uint64_t)> build;
  std::vector<uint64_t> good;  // of the values tried, those that make a valid file
};

std::string WithTensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset,
                       std::optional<uint32_t> rank = std::nullopt) {
  return GgufWriter()
      .AddRawTensor("t", dims, type, offset, rank)
      .AddData(std::string(4096, 'x'))
      .Build();
}

std::string LengthOf(uint64_t length, std::string_view rest) {
  std::string body;
  GgufWriter::AppendNumber(body, length);
  return body.append(rest);
}

std::string ArrayOf(uint32_t type, uint64_t count, std::string_view rest) {
  std::string body;
  GgufWriter::AppendNumber(body, type);
  return body + LengthOf(count, rest);
}

std::vector<FieldCase> FieldCases() {
  return {
      {"tensor count", [](uint64_t v) { return SmallFile().SetTensorCount(v).Build(); }, {0, 1, 2}},
      {"key count", [](uint64_t v) { return SmallFile().SetKeyCount(v).Build(); }, {}},
      {"string length",
       [](uint64_t v) { return GgufWriter().AddRawValue("k", 8, LengthOf(v, "x")).Build(); },
       {0, 1}},
      {"array of u8",
       [](uint64_t v) { return GgufWriter().AddRawValue("k", 9, ArrayOf(0, v, "x")).Build(); },
       {0, 1}},
      {"array of u64",
       [](uint64_t v) { return GgufWriter().AddRawValue("k", 9, ArrayOf(10, v, "")).Build(); },
       {0}},
      {"array of strings",
       [](uint64_t v) { return GgufWriter().AddRawValue("k", 9, ArrayOf(8, v, "")).Build(); },
       {0}},
      {"only dimension", [](uint64_t v) { return WithTensor({v}, 0, 0); }, {1, 2}},
      {"first of two",
       [](uint64_t v) {
         return WithTensor({v, 2}, 0, 0);
       },
       {1, 2}},
      {"second of two",
       [](uint64_t v) {
         return WithTensor({2, v}, 0, 0);
       },
       {1, 2}},
      {"last of four",
       [](uint64_t v) {
         return WithTensor({2, 2, 2, v}, 1, 0);
       },
       {1, 2}},
      {"row of blocks", [](uint64_t v) { return WithTensor({v}, 3, 0); }, {}},
      {"rows of blocks",
       [](uint64_t v) {
         return WithTensor({32, v}, 8, 0);
       },
       {1, 2}},
      {"data offset", [](uint64_t v) { return WithTensor({1}, 0, v); }, {0}},
      {"alignment",
       [](uint64_t v) { return GgufWriter().AddValue("general.alignment", v).Build(); },
       {1, 2}},
  };
}

TEST(Gguf, RefusesEachFieldAtItsEdges) {
  const std::vector<uint64_t> edges = {0,
                                       1,
                                       2,
                                       kMax64 - 1,
                                       kMax64,
                                       kMax64 / 2,
                                       kMax64 / 2 + 1,
                                       (kMax64 / 4) + 1,
                                       (kMax64 / 8) + 1,
                                       (kMax64 / 14) + 1,
                                       (kMax64 / 33) + 1,
                                       kMax64 - 31,
                                       kMax64 - 4095,
                                       uint64_t{1} << 32,
                                       (uint64_t{1} << 32) + 1,
                                       uint64_t{1} << 48,
                                       uint64_t{1} << 62};
  for (const FieldCase& field : FieldCases()) {
    for (const uint64_t value : edges) {
      SCOPED_TRACE(testing::Message() << field.name << " = " << value);
      const bool good = std::find(field.good.begin(), field.good.end(), value) != field.good.end();
      const std::string message = MessageOf(field.build(value));
      EXPECT_EQ(message == "no error", good) << message;
    }
  }
}

TEST(Gguf, RefusesProductsThatWrap) {
  const uint64_t half = uint64_t{1} << 32;
  EXPECT_THAT(MessageOf(WithTensor({half, half}, 0, 0)), HasSubstr("shape of tensor 't'"));
  EXPECT_THAT(MessageOf(WithTensor({1 << 16, 1 << 16, 1 << 16, 1 << 16}, 0, 0)),
              HasSubstr("more than 64 bits can count"));
  // 2^64 + 64 bytes.
  EXPECT_THAT(MessageOf(WithTensor({16, (uint64_t{1} << 58) + 1}, 0, 0)), HasSubstr("shape of"));
}

TEST(Gguf, RefusesRanks) {
  EXPECT_THAT(MessageOf(WithTensor({}, 0, 0)), HasSubstr("rank of tensor 't'"));
  EXPECT_THAT(MessageOf(WithTensor({1, 1, 1, 1, 1}, 0, 0)), HasSubstr("expected 1 to 4, found 5"));
  EXPECT_THAT(MessageOf(WithTensor({1}, 0, 0, 0xFFFFFFFF)), HasSubstr("rank of tensor 't'"));
}

TEST(Gguf, RefusesBrokenRows) {
  EXPECT_THAT(MessageOf(WithTensor({33}, 3, 0)), HasSubstr("a multiple of 32 for Q4_1, found 33"));
}

TEST(Gguf, NamesUnsupportedTypes) {
  EXPECT_THAT(MessageOf(WithTensor({256}, 14, 0)), HasSubstr("found Q6_K (14)"));
  EXPECT_THAT(MessageOf(WithTensor({256}, 12, 0)), HasSubstr("F32 (0), F16 (1)"));
  EXPECT_THAT(MessageOf(WithTensor({256}, 1000, 0)), HasSubstr("unknown type (1000)"));
}

TEST(Gguf, RefusesDataOutsideOrOverlapping) {
  EXPECT_THAT(MessageOf(WithTensor({1024}, 0, 32)), HasSubstr("data inside the file"));
  EXPECT_TRUE(Parse(WithTensor({1024}, 0, 0)).ok());
  EXPECT_THAT(MessageOf(WithTensor({1}, 0, 8)), HasSubstr("a multiple of 32"));
  const std::string overlap = GgufWriter()
                                  .AddRawTensor("a", {16}, 0, 32)
                                  .AddRawTensor("b", {9}, 0, 0)
                                  .AddData(std::string(96, 'x'))
                                  .Build();
  EXPECT_THAT(MessageOf(overlap), HasSubstr("bytes shared with 'b'"));
  const std::string same = GgufWriter()
                               .AddRawTensor("a", {8}, 0, 0)
                               .AddRawTensor("b", {8}, 0, 0)
                               .AddData(std::string(64, 'x'))
                               .Build();
  EXPECT_THAT(MessageOf(same), HasSubstr("bytes shared with"));
}

TEST(Gguf, RefusesDuplicates) {
  EXPECT_THAT(MessageOf(GgufWriter().AddValue("k", 1).AddValue("k", 1).Build()),
              HasSubstr("key 'k' at byte "));
  GgufWriter writer;
  writer.AddTensor("t", DType::kF32, {8}, std::string(32, 'a'))
      .AddTensor("t", DType::kF32, {8}, std::string(32, 'b'));
  EXPECT_THAT(MessageOf(writer.Build()), HasSubstr("the name a second time"));
}

TEST(Gguf, RefusesAlignments) {
  for (const uint32_t bad : {0U, 3U, 24U, 131072U, 0x80000000U}) {
    EXPECT_THAT(MessageOf(GgufWriter().AddValue("general.alignment", bad).Build()),
                HasSubstr("key 'general.alignment' at byte "))
        << bad;
  }
  EXPECT_THAT(MessageOf(GgufWriter().AddValue("general.alignment", "32").Build()),
              HasSubstr("not an integer"));
  EXPECT_THAT(MessageOf(GgufWriter().AddValue("general.alignment", -32).Build()),
              HasSubstr("found -32"));
  for (const uint32_t good : {4U, 64U, 65536U}) {
    GgufWriter writer;
    writer.SetAlignment(good)
        .AddTensor("a", DType::kF32, {3}, std::string(12, 'a'))
        .AddTensor("b", DType::kF32, {3}, std::string(12, 'b'));
    EXPECT_TRUE(Parse(writer.Build()).ok()) << good;
  }
}

TEST(Gguf, RefusesNumbersThatWouldLieCrooked) {
  GgufWriter writer;
  writer.SetAlignment(1).AddValue("k", uint8_t{1}).AddTensor("t", DType::kF32, {1}, "abcd");
  int good = 0;
  for (int pad = 0; pad < 4; ++pad) {
    GgufWriter padded = writer;
    padded.AddValue("p", std::string(static_cast<size_t>(pad), 'p'));
    good += Parse(padded.Build()).ok() ? 1 : 0;
  }
  EXPECT_EQ(good, 1);
}

TEST(Gguf, RefusesNamesOutsideTheirLimits) {
  EXPECT_THAT(MessageOf(GgufWriter().AddValue("", 1).Build()), HasSubstr("1 to 65535 bytes"));
  EXPECT_TRUE(Parse(GgufWriter().AddValue(std::string(65535, 'k'), 1).Build()).ok());
  EXPECT_THAT(MessageOf(GgufWriter().AddValue(std::string(65536, 'k'), 1).Build()),
              HasSubstr("a length of 65536"));
  const auto named = [](const std::string& name) {
    return GgufWriter().AddTensor(name, DType::kF32, {8}, std::string(32, 'x')).Build();
  };
  EXPECT_TRUE(Parse(named(std::string(64, 'n'))).ok());
  EXPECT_THAT(MessageOf(named(std::string(65, 'n'))), HasSubstr("1 to 64 bytes"));
  EXPECT_THAT(MessageOf(named("")), HasSubstr("1 to 64 bytes"));
}

TEST(Gguf, RefusesBadValues) {
  EXPECT_THAT(MessageOf(GgufWriter().AddRawValue("k", 13, "").Build() + std::string(8, '\0')),
              HasSubstr("a value type from 0 to 12, found 13"));
  EXPECT_THAT(MessageOf(GgufWriter().AddRawValue("k", 7, "\x02").Build()),
              HasSubstr("0 or 1, found 2"));
  EXPECT_THAT(MessageOf(GgufWriter().AddValue("k", kMax64).Build()), HasSubstr("at most 9223"));
  EXPECT_THAT(MessageOf(GgufWriter().AddValue("k", std::vector<uint64_t>{1, kMax64}).Build()),
              HasSubstr("key 'k' at byte"));
  EXPECT_THAT(MessageOf(GgufWriter().AddRawValue("k", 9, ArrayOf(9, 1, "")).Build()),
              HasSubstr("an array of arrays"));
  EXPECT_THAT(MessageOf(GgufWriter().AddRawValue("k", 9, ArrayOf(77, 1, "")).Build()),
              HasSubstr("found 77"));
}

TEST(Gguf, RefusesPartsOfASplitModel) {
  EXPECT_THAT(MessageOf(GgufWriter().AddValue("split.count", uint16_t{3}).Build()),
              HasSubstr("a model split into 3 files"));
  EXPECT_TRUE(Parse(GgufWriter().AddValue("split.count", uint16_t{1}).Build()).ok());
}

TEST(Gguf, RefusesFilesThatUnfoldToManyTimesTheirSize) {
  // Eight bytes of memory for one of the file.
  const std::vector<uint8_t> items(8 << 20);
  EXPECT_THAT(MessageOf(GgufWriter().AddValue("k", items).Build()), HasSubstr("twice the size"));
}

TEST(Gguf, KeepsHostileKeysOutOfMessages) {
  const std::string message =
      MessageOf(GgufWriter().AddRawValue("\x1b[2J\n'", 13, "").Build() + std::string(8, '\0'));
  EXPECT_THAT(message, HasSubstr("'\\x1b[2J\\x0a\\x27'"));
}

TEST(GgufTypes, KnowsItsTable) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromGgufId(GgufIdOf(dtype)), dtype);
    EXPECT_THAT(GgufTypeText(GgufIdOf(dtype)), HasSubstr(std::string(InfoOf(dtype).name)));
  }
}

}  // namespace
}  // namespace mooring
