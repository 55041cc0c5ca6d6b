#include "talk/snapshot_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/files.h"
#include "base/test_folder.h"

namespace mooring {
namespace {

constexpr uint64_t kRoomy = 1 << 20;

class SnapshotFilesTest : public testing::Test {
 protected:
  SnapshotFiles Files(uint64_t limit = kRoomy, const std::string& identity = "this model") const {
    return {folder_.path() / "snapshots", identity, limit};
  }
  std::filesystem::path PathOf(const std::string& conversation) const {
    return folder_.path() / "snapshots" / (conversation + ".pages");
  }
  static std::string Found(SnapshotFiles files, const std::string& conversation) {
    const auto loaded = files.Load(conversation);
    if (!loaded.ok()) return "error";
    return loaded->value_or("nothing");
  }

  TestFolder folder_;
};

TEST_F(SnapshotFilesTest, TheNewestComesBackForItsOwnConversationOnly) {
  EXPECT_EQ(Found(Files(), "conv_a"), "nothing");
  ASSERT_TRUE(Files().Save("conv_a", "first").ok());
  EXPECT_EQ(Found(Files(), "conv_a"), "first");
  ASSERT_TRUE(Files().Save("conv_a", "second").ok());
  EXPECT_EQ(Found(Files(), "conv_a"), "second");
  EXPECT_EQ(Found(Files(), "conv_b"), "nothing");
  EXPECT_EQ(Found(Files(kRoomy, "another"), "conv_a"), "nothing");
  Files().Remove("conv_a");
  EXPECT_EQ(Found(Files(), "conv_a"), "nothing");
}

TEST_F(SnapshotFilesTest, EveryFlippedBitAndEveryCutIsRefused) {
  ASSERT_TRUE(Files().Save("conv_a", "keys and values").ok());
  const std::string whole = *ReadFile(PathOf("conv_a"), kRoomy);
  const auto write = [&](const std::string& bytes) {
    std::ofstream(PathOf("conv_a"), std::ios::binary) << bytes;
  };
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bad = whole;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    write(bad);
    ASSERT_EQ(Found(Files(), "conv_a"), "error") << bit;
    ASSERT_FALSE(std::filesystem::exists(PathOf("conv_a"))) << bit;
  }
  for (size_t length = 0; length < whole.size(); ++length) {
    write(whole.substr(0, length));
    ASSERT_EQ(Found(Files(), "conv_a"), "error") << length;
  }
  write(whole);
  EXPECT_EQ(Found(Files(), "conv_a"), "keys and values");
}

TEST_F(SnapshotFilesTest, TheOldestGoesFirstAndTheNewestStays) {
  const std::string big(400, 'x');
  for (const std::string name : {"conv_a", "conv_b", "conv_c"}) {
    ASSERT_TRUE(Files(1200).Save(name, big).ok());
    const auto age = std::chrono::hours(name == "conv_a" ? 3 : 2);
    std::filesystem::last_write_time(PathOf(name),
                                     std::filesystem::file_time_type::clock::now() - age);
  }
  EXPECT_EQ(Found(Files(), "conv_a"), "nothing");
  EXPECT_EQ(Found(Files(), "conv_b"), big);
  ASSERT_TRUE(Files(100).Save("conv_d", big).ok());
  EXPECT_EQ(Found(Files(), "conv_c"), "nothing");
  EXPECT_EQ(Found(Files(), "conv_d"), big);
}

TEST_F(SnapshotFilesTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_.path() / "snapshots") << "a file";
  EXPECT_FALSE(Files().Save("conv_a", "x").ok());
  EXPECT_NE(Found(Files(), "conv_a"), "x");
}

}  // namespace
}  // namespace mooring
