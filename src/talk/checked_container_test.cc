#include "talk/checked_container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <fstream>

#include "base/files.h"
#include "talk/byte_stream.h"

namespace mooring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array<std::string_view, 3> kTags = {"AAAA", "BBBB", "CCCC"};

std::string SmallFile() {
  const std::array<ContainerSection, 3> sections = {
      {{"AAAA", "seven b"}, {"BBBB", ""}, {"CCCC", "eight by"}}};
  return BuildContainer(sections);
}

// The checksum over all made right again, as someone who means to deceive would.
std::string Sealed(std::string file) {
  const size_t end = file.size() - sizeof(uint64_t);
  const uint64_t checksum = XXH3_64bits(file.data(), end);
  std::memcpy(file.data() + end, &checksum, sizeof(checksum));
  return file;
}

ErrorKind KindOf(const std::string& file) {
  const auto opened = OpenContainer(file, "test", kTags);
  return opened.ok() ? ErrorKind{} : opened.error().kind;
}

TEST(CheckedContainerTest, GivesBackWhatWasPutIn) {
  const std::string file = SmallFile();
  EXPECT_EQ(file.size() % 8, 0U);
  const auto bodies = OpenContainer(file, "test", kTags);
  ASSERT_TRUE(bodies.ok()) << bodies.error().Message();
  EXPECT_THAT(*bodies, ElementsAre("seven b", "", "eight by"));
}

TEST(CheckedContainerTest, RefusesEveryFlippedBit) {
  const std::string good = SmallFile();
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      EXPECT_FALSE(OpenContainer(bad, "test", kTags).ok()) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(CheckedContainerTest, RefusesEveryOtherLength) {
  const std::string good = SmallFile();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(KindOf(good.substr(0, size)), ErrorKind::kModelInvalid) << size;
  }
  EXPECT_EQ(KindOf(good + '\0'), ErrorKind::kModelInvalid);
  EXPECT_EQ(KindOf(good + good), ErrorKind::kModelInvalid);
}

// Lengths that lie, under a checksum over all that does not: no read outside, no giant allocation.
TEST(CheckedContainerTest, RefusesSealedLies) {
  const std::string good = SmallFile();
  constexpr size_t kFirstLength = 24 + 8;
  for (const uint64_t lie :
       {uint64_t{0}, uint64_t{8}, uint64_t{1} << 32, UINT64_MAX - 6, UINT64_MAX}) {
    std::string bad = good;
    std::memcpy(bad.data() + kFirstLength, &lie, sizeof(lie));
    EXPECT_EQ(KindOf(Sealed(bad)), ErrorKind::kModelInvalid) << lie;
  }
  std::string bad = good;
  bad[24] = 'X';  // the tag
  EXPECT_EQ(KindOf(Sealed(bad)), ErrorKind::kModelInvalid);
  bad = good;
  bad[16] = 2;  // the section count
  EXPECT_EQ(KindOf(Sealed(bad)), ErrorKind::kModelInvalid);
}

TEST(CheckedContainerTest, NamesTheVersion) {
  std::string newer = SmallFile();
  newer[4] = 9;
  const auto opened = OpenContainer(Sealed(newer), "test", kTags);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::kConfig);
  EXPECT_THAT(opened.error().Message(), HasSubstr("version 9"));
}

TEST(CheckedContainerTest, ReadsOnlyFilesThatCanBeOurs) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("container_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  EXPECT_EQ(ReadContainerFile(folder / "none").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(ReadContainerFile(folder).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(ReadContainerFile("/dev/zero").error().kind, ErrorKind::kUsage);
  std::ofstream(folder / "empty").flush();
  EXPECT_EQ(ReadContainerFile(folder / "empty").error().kind, ErrorKind::kModelInvalid);
  std::ofstream(folder / "text") << "a text that is long enough to hold a header";
  EXPECT_EQ(ReadContainerFile(folder / "text").error().kind, ErrorKind::kModelInvalid);
  std::filesystem::resize_file(folder / "text", uint64_t{1} << 40);  // sparse: no memory for it
  EXPECT_EQ(ReadContainerFile(folder / "text").error().kind, ErrorKind::kModelInvalid);
  const std::string good = SmallFile();
  ASSERT_TRUE(WriteFileAtomically(folder / "good", std::as_bytes(std::span(good))).ok());
  EXPECT_EQ(*ReadContainerFile(folder / "good"), good);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mooring
