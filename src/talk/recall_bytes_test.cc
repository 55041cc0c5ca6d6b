#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>

#include "base/random.h"
#include "talk/recall.h"
#include "talk/test_words.h"

namespace mooring {
namespace {

using testing::HasSubstr;

const TestWords& Words() {
  static const TestWords* const kWords = new TestWords({"gate", "code", "sun", "moon", "tea"});
  return *kWords;
}

constexpr RecallSettings kSettings = {.vector_dim = 3, .max_bytes = 1 << 20};

// Some spans with and without vectors and words, two of them forgotten.
Recall SomeIndex(int spans) {
  Recall index(&Words().terms(), kSettings);
  for (int i = 0; i < spans; ++i) {
    std::vector<TokenId> tokens;
    for (int j = 0; j < i % 9; ++j) tokens.push_back('a' + (i * j) % 40);
    std::vector<float> vector;
    if (i % 3 != 0) vector = {1, static_cast<float>(i % 7), -2};
    const LogIndex from = {100 * int64_t{i} + i % 5};
    CHECK(index.Add({from, from + 20 + i % 60}, tokens, vector).ok());
  }
  index.Forget(static_cast<SpanId>(spans / 2));
  index.Forget(static_cast<SpanId>(spans / 3));
  return index;
}

std::string BytesOf(const Recall& index) {
  std::string bytes;
  index.AppendTo(&bytes);
  return bytes;
}

Result<Recall> Read(std::string_view bytes) {
  return Recall::Parse(&Words().terms(), kSettings, bytes, "test");
}

// Length and checksum made right again, as someone who means to deceive would.
std::string Sealed(std::string bytes) {
  if (bytes.size() < 24) return bytes;
  const uint64_t length = bytes.size();
  std::memcpy(bytes.data() + 8, &length, sizeof(length));
  const uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size() - 8);
  std::memcpy(bytes.data() + bytes.size() - 8, &checksum, sizeof(checksum));
  return bytes;
}

ErrorKind KindOf(std::string_view bytes) {
  const auto read = Read(bytes);
  return read.ok() ? ErrorKind{} : read.error().kind;
}

TEST(RecallBytesTest, GivesBackWhatWasPutIn) {
  for (const int spans : {1, 2, 50}) {
    const Recall index = SomeIndex(spans);
    const std::string bytes = BytesOf(index);
    const auto read = Read(bytes);
    ASSERT_TRUE(read.ok()) << read.error().Message();
    EXPECT_EQ(BytesOf(*read), bytes);
    EXPECT_EQ(read->span_count(), index.span_count());
    for (SpanId span = 0; span < index.span_count(); ++span) {
      EXPECT_EQ(read->range(span), index.range(span));
      EXPECT_EQ(read->forgotten(span), index.forgotten(span));
    }
    const std::vector<TokenId> tokens = {'a', 'c', 'g'};
    const std::vector<float> vector = {1, 3, -2};
    const auto expected = index.Search({.tokens = tokens, .vector = vector});
    const auto found = read->Search({.tokens = tokens, .vector = vector});
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].span, expected[i].span);
      EXPECT_EQ(found[i].score, expected[i].score);
    }
  }
  const std::string none = BytesOf(Recall(&Words().terms(), kSettings));
  ASSERT_TRUE(Read(none).ok());
  EXPECT_EQ(BytesOf(*Read(none)), none);
  std::string behind = "before";
  SomeIndex(2).AppendTo(&behind);
  EXPECT_EQ(behind, "before" + BytesOf(SomeIndex(2)));
}

// Lists that are full keep what they know of their past.
TEST(RecallBytesTest, KeepsFullLists) {
  Recall index(&Words().terms(), {.vector_dim = 0});
  const std::vector<TokenId> tokens = {Words().Id("gate")};
  for (int64_t i = 0; i < PostingList::kMaxPostings + 50; ++i) {
    ASSERT_TRUE(index.Add({{i}, {i + 1}}, tokens, {}).ok());
  }
  const std::string bytes = BytesOf(index);
  const auto read = Recall::Parse(&Words().terms(), {.vector_dim = 0}, bytes, "test");
  ASSERT_TRUE(read.ok()) << read.error().Message();
  EXPECT_EQ(BytesOf(*read), bytes);
}

TEST(RecallBytesTest, NamesWhatDoesNotFit) {
  const std::string good = BytesOf(SomeIndex(9));
  EXPECT_EQ(KindOf(""), ErrorKind::kModelInvalid);
  EXPECT_EQ(KindOf("MIDX"), ErrorKind::kModelInvalid);
  std::string newer = good;
  newer[4] = 9;
  EXPECT_EQ(KindOf(newer), ErrorKind::kConfig);
  const TestWords others({"river"});
  const auto other_words = Recall::Parse(&others.terms(), kSettings, good, "some file");
  ASSERT_FALSE(other_words.ok());
  EXPECT_EQ(other_words.error().kind, ErrorKind::kConfig);
  EXPECT_THAT(other_words.error().Message(), HasSubstr("some file, vocabulary"));
  RecallSettings settings = kSettings;
  settings.vector_dim = 4;
  const auto other_dim = Recall::Parse(&Words().terms(), settings, good, "some file");
  ASSERT_FALSE(other_dim.ok());
  EXPECT_EQ(other_dim.error().kind, ErrorKind::kConfig);
  settings = kSettings;
  for (const uint64_t limit : {uint64_t{100}, uint64_t{600}}) {
    settings.max_bytes = limit;
    const auto small = Recall::Parse(&Words().terms(), settings, good, "some file");
    ASSERT_FALSE(small.ok());
    EXPECT_EQ(small.error().kind, ErrorKind::kResources);
  }
}

TEST(RecallBytesTest, RefusesEveryFlippedBitAndOtherLength) {
  const std::string good = BytesOf(SomeIndex(9));
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      EXPECT_FALSE(Read(bad).ok()) << "byte " << i << " bit " << bit;
    }
  }
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(Read(good.substr(0, size)).ok());
  EXPECT_FALSE(Read(good + '\0').ok());
}

// An index that was read, whatever it holds, can be used like any other.
void Use(Recall index) {
  const std::vector<TokenId> tokens = {'a', 'b', 'g', 'k'};
  const std::vector<float> vector = {1, 2, -2};
  for (const RecallHit& hit : index.Search({.tokens = tokens, .vector = vector})) {
    ASSERT_LT(hit.span, index.span_count());
    ASSERT_FALSE(index.forgotten(hit.span));
  }
  const LogIndex end =
      index.span_count() == 0 ? LogIndex{0} : index.range(index.span_count() - 1).to;
  if (end.value < INT64_MAX - 10) {
    const auto added = index.Add({end, end + 10}, tokens, vector);
    ASSERT_TRUE(added.ok() || added.error().kind == ErrorKind::kResources);
  }
  if (index.span_count() > 0) index.Forget(0);
  index.Rewind(index.span_count() / 2);
  const std::string bytes = BytesOf(index);
  ASSERT_TRUE(Read(bytes).ok()) << Read(bytes).error().Message();
}

// Under a right checksum: each is refused, or gives an index that works.
TEST(RecallBytesTest, OutlivesSealedLies) {
  const std::string good = BytesOf(SomeIndex(9));
  int refused = 0;
  int taken = 0;
  const auto use = [&](const std::string& bytes) {
    auto read = Read(Sealed(bytes));
    ++(read.ok() ? taken : refused);
    if (read.ok()) Use(*read);
  };
  for (size_t i = 16; i + 8 < good.size(); ++i) {
    for (const int value : {0, 1, 2, 0x7F, 0x80, 0xFF}) {
      std::string bad = good;
      bad[i] = static_cast<char>(value);
      use(bad);
    }
  }
  for (size_t size = 0; size < good.size(); ++size) use(good.substr(0, size));
  for (uint64_t i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (uint64_t j = 0; j < 1 + i % 5; ++j) {
      const uint64_t bits = RandomBits(11, i, j);
      const size_t at = 16 + bits % (bad.size() - 24);
      if (bits >> 60 == 0) bad.insert(at, 1 + (bits >> 40) % 9, static_cast<char>(bits >> 32));
      if (bits >> 60 == 1) bad.erase(at, 1 + (bits >> 40) % 9);
      if (bits >> 60 > 1) bad[at % bad.size()] = static_cast<char>(bits >> 32);
      if (bad.size() < 60) break;
    }
    use(bad);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 100);  // other vectors, other ranges of the log
}

}  // namespace
}  // namespace mooring
