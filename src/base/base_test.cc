#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include "base/arena.h"
#include "base/checked.h"
#include "base/files.h"
#include "base/log.h"
#include "base/random.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace mooring {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(CheckedSize, OverflowStays) {
  EXPECT_EQ((CheckedSize(3) * 4 + 5).value(), 17U);
  EXPECT_FALSE((CheckedSize(kMax) + 1).valid());
  EXPECT_FALSE((CheckedSize(kMax) * 2 - 5).valid());
  EXPECT_FALSE((CheckedSize(1) - 2).valid());
  EXPECT_FALSE(((CheckedSize(kMax) + 1) * 0).valid());
  EXPECT_EQ((CheckedSize(kMax / 3) * 3).value(), kMax / 3 * 3);
}

TEST(CheckedSize, AlignUp) {
  EXPECT_EQ(CheckedSize(33).AlignUp(32).value(), 64U);
  EXPECT_EQ(CheckedSize(64).AlignUp(32).value(), 64U);
  EXPECT_FALSE(CheckedSize(kMax - 3).AlignUp(32).valid());
  EXPECT_FALSE((CheckedSize(kMax) + 1).AtMost(kMax));
}

TEST(Error, MessageSaysAllThatIsKnown) {
  const Error error = {
      .what = "bad thing", .where = "here", .expected = "a", .found = "b", .remedy = "do this"};
  EXPECT_EQ(error.Message(), "bad thing (here): expected a, found b; do this");
  EXPECT_EQ(Error{.what = "bad thing"}.Message(), "bad thing");
}

TEST(Result, CarriesAValueOrAnError) {
  const Result<std::string> good = std::string("yes");
  EXPECT_TRUE(good.ok());
  const auto half = [](int n) -> Result<int> {
    if (n % 2 != 0) return Error{.kind = ErrorKind::kUsage, .what = "odd"};
    return n / 2;
  };
  const auto quarter = [&half](int n) -> Result<int> {
    MOORING_ASSIGN_OR_RETURN(const int h, half(n));
    return half(h);
  };
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().kind, ErrorKind::kUsage);
}

TEST(ThreadPool, RunsEveryItemOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t items : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> counts(static_cast<size_t>(items));
      pool.Run(items, [&](int64_t item, int thread) {
        EXPECT_LT(thread, threads);
        ++counts[static_cast<size_t>(item)];
      });
      for (const auto& count : counts) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, ManyShortLoops) {
  ThreadPool pool(3);
  int64_t sum = 0;
  std::vector<int64_t> parts(16);
  for (int loop = 0; loop < 2000; ++loop) {
    pool.Run(16, [&](int64_t item, int) { parts[static_cast<size_t>(item)] = item * loop; });
    sum += std::accumulate(parts.begin(), parts.end(), int64_t{0});
  }
  EXPECT_EQ(sum, 120LL * 1999 * 2000 / 2);
}

TEST(Random, IsAPureFunctionAndUniform) {
  EXPECT_EQ(RandomBits(1, 2, 3), RandomBits(1, 2, 3));
  EXPECT_NE(RandomBits(1, 2, 3), RandomBits(1, 3, 2));
  double mean = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    const double u = RandomUniform(5, 0, i);
    ASSERT_TRUE(u >= 0 && u < 1);
    mean += u / 100000;
  }
  EXPECT_NEAR(mean, 0.5, 0.005);
}

TEST(Arena, GivesAlignedArraysUntilReset) {
  Arena arena(256);
  (void)arena.Make<char>(3);
  const auto numbers = arena.Make<uint64_t>(4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(numbers.data()) % alignof(uint64_t), 0U);
  EXPECT_DEATH((void)arena.Make<char>(1000), "full");
  arena.Reset();
  EXPECT_EQ(arena.Make<char>(256).size(), 256U);
}

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    std::string name = (std::filesystem::temp_directory_path() / "mooring-files-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(FilesTest, WritesWholeFiles) {
  const auto path = folder_ / "file";
  const std::string first = "one";
  const std::string second(100000, 'x');
  ASSERT_TRUE(WriteFileAtomically(path, std::as_bytes(std::span(first))).ok());
  ASSERT_TRUE(WriteFileAtomically(path, std::as_bytes(std::span(second))).ok());
  EXPECT_EQ(*ReadFile(path, 1 << 20), second);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
}

TEST_F(FilesTest, AFullDiskLeavesTheOldFile) {
  const auto path = folder_ / "file";
  const std::string old = "old";
  ASSERT_TRUE(WriteFileAtomically(path, std::as_bytes(std::span(old))).ok());
  // A limit on file sizes stands in for a full disk.
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small = {1000, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string big(100000, 'y');
  const Status written = WriteFileAtomically(path, std::as_bytes(std::span(big)));
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, previous);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::kResources);
  EXPECT_EQ(*ReadFile(path, 100), old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FilesTest, ReadErrorsAreClear) {
  EXPECT_EQ(ReadFile(folder_ / "none", 10).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(ReadFile(folder_, 10).error().kind, ErrorKind::kUsage);
  std::ofstream(folder_ / "long") << "12345678901";
  EXPECT_EQ(ReadFile(folder_ / "long", 10).error().kind, ErrorKind::kUsage);
  const std::string text = "x";
  EXPECT_EQ(
      WriteFileAtomically(folder_ / "no" / "file", std::as_bytes(std::span(text))).error().kind,
      ErrorKind::kNotFound);
}

TEST(Log, KnowsItsLevels) {
  EXPECT_TRUE(SetUpLog("warn", false).ok());
  EXPECT_EQ(SetUpLog("loud", false).error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace mooring
