// The store on bad days: disks that fail or are full, power cuts, kills, damaged files, other
// processes. What was acknowledged is there afterwards, whole; everything else is an error in
// words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "talk/store.h"
#include "talk/store_test_disk.h"
#include "talk/store_test_support.h"

namespace mooring {
namespace {

using testing::HasSubstr;

std::string AnswerOf(int turn) {
  // Some span several pages, so that a torn one would show.
  return "answer " + std::to_string(turn) + std::string(static_cast<size_t>(turn % 7) * 1500, '.');
}

// An answer that could not be kept is given to the store again; `errors` (may be null) gets why.
Status AddTurn(Store* store, int turn, std::vector<Error>* errors = nullptr) {
  auto info = store->FindOrCreate(kOwner, "talk", {});
  if (!info.ok()) return info.error();
  const ConversationKey key{kOwner, info->id};
  auto accepted = store->Accept(key, {.messages = {{"user", std::to_string(turn)}}});
  if (!accepted.ok()) return accepted.error();
  EXPECT_EQ(accepted->kind, AcceptKind::kAccepted);
  const TurnFinish finish{.answer = accepted->turn.answer,
                          .text = AnswerOf(turn),
                          .tokens = TokensFrom(turn, 50, true)};
  for (int tries = 0;; ++tries) {
    const Status kept = store->Finish(key, finish);
    if (kept.ok() || errors == nullptr || tries == 20) return kept;
    errors->push_back(kept.error());
  }
}

// All turns that were acknowledged, each whole, in order; perhaps more that were not.
void ExpectTurns(Store* store, const std::vector<int>& acknowledged) {
  ASSERT_EQ(ErrorText(store->Verify()), "");
  std::vector<int> found;
  const auto info = store->Find(kOwner, "talk");
  if (info.ok()) {
    const auto chain = store->LoadChain({kOwner, info->id}, {.tokens = true});
    ASSERT_TRUE(chain.ok()) << chain.error().Message();
    for (size_t i = 1; i < chain->size(); ++i) {
      const StoredMessage& answer = (*chain)[i];
      if (answer.role != "assistant" || answer.state != MessageState::kComplete) continue;
      const int turn = std::stoi((*chain)[i - 1].text);
      EXPECT_EQ(answer.text, AnswerOf(turn));
      EXPECT_EQ(answer.tokens, TokensFrom(turn, 50, true));
      found.push_back(turn);
    }
  }
  EXPECT_TRUE(std::includes(found.begin(), found.end(), acknowledged.begin(), acknowledged.end()))
      << testing::PrintToString(found) << " lack some of " << testing::PrintToString(acknowledged);
}

std::unique_ptr<Store> OpenOrFail(const std::filesystem::path& folder, std::string vfs = {}) {
  auto store = Store::Open({.folder = folder, .vfs = std::move(vfs)});
  EXPECT_TRUE(store.ok()) << store.error().Message();
  return store.ok() ? std::move(store).value() : nullptr;
}

std::optional<Error> OpenError(const std::filesystem::path& folder) {
  auto store = Store::Open({.folder = folder});
  if (store.ok()) return std::nullopt;
  return store.error();
}

// Fails every n-th write or sync, one after the other, and sees that the store goes on.
void FailEachAct(int code, ErrorKind kind) {
  int failures = 0;
  for (int nth = 1; nth < 60; nth += 3) {
    const TestFolder folder;
    TestDisk disk;
    std::vector<int> acknowledged;
    std::unique_ptr<Store> store = OpenOrFail(folder.path(), disk.name());
    ASSERT_NE(store, nullptr);
    int count = 0;
    disk.on_act = [&](TestDisk::Act, bool, bool after) {
      return !after && ++count >= nth && count < nth + 5 ? code : SQLITE_OK;
    };
    for (int turn = 1; turn <= 12; ++turn) {
      std::vector<Error> errors;
      const Status added = AddTurn(store.get(), turn, &errors);
      if (added.ok()) acknowledged.push_back(turn);
      if (!added.ok()) errors.push_back(added.error());
      for (const Error& error : errors) {
        ++failures;
        EXPECT_EQ(error.kind, kind) << error.Message();
        EXPECT_THAT(error.Message(), HasSubstr("conversations.db"));
        EXPECT_FALSE(error.remedy.empty());
      }
    }
    EXPECT_GT(acknowledged.size(), 5U);
    EXPECT_FALSE(acknowledged.empty());
    disk.on_act = {};
    store.reset();
    store = OpenOrFail(folder.path());
    ASSERT_NE(store, nullptr);
    ExpectTurns(store.get(), acknowledged);
  }
  EXPECT_GT(failures, 20);
}

TEST(StoreWeatherTest, AFullDiskFailsTheCallAndNoMore) {
  FailEachAct(SQLITE_FULL, ErrorKind::kResources);
}

TEST(StoreWeatherTest, AFailedWriteFailsTheCallAndNoMore) {
  FailEachAct(SQLITE_IOERR_WRITE, ErrorKind::kFailed);
}

TEST(StoreWeatherTest, AFailedSyncIsNeverAnAcknowledgement) {
  FailEachAct(SQLITE_IOERR_FSYNC, ErrorKind::kFailed);
}

TEST(StoreWeatherTest, AGroupWhoseSyncFailsIsUndone) {
  const TestFolder folder;
  TestDisk disk;
  std::unique_ptr<Store> store = OpenOrFail(folder.path(), disk.name());
  ASSERT_NE(store, nullptr);
  ASSERT_TRUE(AddTurn(store.get(), 1).ok());
  disk.on_act = [](TestDisk::Act act, bool, bool) {
    return act == TestDisk::Act::kSync ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  };
  EXPECT_FALSE(store
                   ->Group([&] {
                     EXPECT_TRUE(AddTurn(store.get(), 2).ok());
                     EXPECT_TRUE(AddTurn(store.get(), 3).ok());
                   })
                   .ok());
  disk.on_act = {};
  EXPECT_EQ(store->Find(kOwner, "talk")->turns, 1);
  EXPECT_TRUE(AddTurn(store.get(), 4).ok());
  ExpectTurns(store.get(), {1, 4});
}

// A text that does not fit into SQLite's memory is written before the group's end. When that fails,
// what the group did may be undone at once: its later calls must not be kept without it.
TEST(StoreWeatherTest, AGroupThatFailsInTheMiddleIsAllOrNothing) {
  for (const int code : {SQLITE_FULL, SQLITE_IOERR_WRITE}) {
    const TestFolder folder;
    TestDisk disk;
    std::unique_ptr<Store> store = OpenOrFail(folder.path(), disk.name());
    ASSERT_NE(store, nullptr);
    ASSERT_TRUE(AddTurn(store.get(), 1).ok());
    std::vector<int> in_group;
    bool failed = false;
    const Status group = store->Group([&] {
      if (AddTurn(store.get(), 2).ok()) in_group.push_back(2);
      disk.on_act = [&](TestDisk::Act act, bool, bool) {
        return act == TestDisk::Act::kWrite ? code : SQLITE_OK;
      };
      failed = !store->Create(kOwner, {.name = "big", .system = std::string(8 << 20, 's')}).ok();
      disk.on_act = {};
      if (AddTurn(store.get(), 3).ok()) in_group.push_back(3);
    });
    EXPECT_TRUE(failed);
    std::vector<int> kept = {1};
    if (group.ok()) kept.insert(kept.end(), in_group.begin(), in_group.end());
    EXPECT_EQ(store->Find(kOwner, "talk")->turns, static_cast<int64_t>(kept.size()));
    ASSERT_TRUE(AddTurn(store.get(), 4).ok());
    kept.push_back(4);
    ExpectTurns(store.get(), kept);
    store.reset();
    store = OpenOrFail(folder.path());
    ExpectTurns(store.get(), kept);
  }
}

// The deletion is kept, but the old bytes cannot be overwritten: that is said, and made good later.
TEST(StoreWeatherTest, OverwritingIsTriedAgain) {
  for (const bool reopened : {false, true}) {
    const TestFolder folder;
    TestDisk disk;
    std::unique_ptr<Store> store = OpenOrFail(folder.path(), disk.name());
    ASSERT_NE(store, nullptr);
    const auto made = store->Create(kOwner, {.system = "the-code-is-4821"});
    ASSERT_TRUE(made.ok());
    const auto on_disk = [&] {
      const std::filesystem::path file = folder.path() / Store::kFileName;
      return (ContentOf(file) + ContentOf(file.string() + "-wal")).find("the-code-is-4821") !=
             std::string::npos;
    };
    disk.on_act = [](TestDisk::Act act, bool is_log, bool) {
      return act == TestDisk::Act::kWrite && !is_log ? SQLITE_FULL : SQLITE_OK;
    };
    EXPECT_EQ(store->Delete({kOwner, made->id}).error().kind, ErrorKind::kResources);
    EXPECT_EQ(store->Find(kOwner, made->id).error().kind, ErrorKind::kNotFound);
    EXPECT_TRUE(AddTurn(store.get(), 1).ok());  // what is kept is acknowledged all the same
    EXPECT_TRUE(on_disk());
    if (reopened) {
      store.reset();
      EXPECT_TRUE(on_disk());
      disk.on_act = {};
      store = OpenOrFail(folder.path());
    }
    disk.on_act = {};
    EXPECT_TRUE(AddTurn(store.get(), 2).ok());
    EXPECT_FALSE(on_disk());
    ExpectTurns(store.get(), {1, 2});
  }
}

TEST(StoreWeatherTest, PowerCutsLoseNothingThatWasAcknowledged) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const TestFolder folder, after;
    TestDisk disk;
    std::vector<int> acknowledged;
    std::unique_ptr<Store> store = OpenOrFail(folder.path(), disk.name());
    ASSERT_NE(store, nullptr);
    // The power goes at some act: what comes then is refused, and what was not synced is lost.
    const auto last = static_cast<int>(5 + RandomBits(seed, 7, 0) % 150);
    int count = 0;
    bool cut = false;
    disk.on_act = [&](TestDisk::Act, bool, bool is_after) {
      if (!is_after && ++count == last) {
        disk.CutPower(after.path(), seed);
        cut = true;
      }
      return cut ? SQLITE_IOERR : SQLITE_OK;
    };
    for (int turn = 1; turn <= 40 && !cut; ++turn) {
      if (AddTurn(store.get(), turn).ok() && !cut) acknowledged.push_back(turn);
    }
    if (!cut) disk.CutPower(after.path(), seed);
    store.reset();
    store = OpenOrFail(after.path());
    ASSERT_NE(store, nullptr);
    ExpectTurns(store.get(), acknowledged);
    EXPECT_TRUE(AddTurn(store.get(), 99).ok());
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

// The same from the very first write on, while the tables are made.
TEST(StoreWeatherTest, PowerCutsWhileTheStoreIsMade) {
  for (int last = 1; last < 30; ++last) {
    const TestFolder folder, after;
    TestDisk disk;
    int count = 0;
    disk.on_act = [&](TestDisk::Act, bool, bool is_after) {
      if (!is_after && ++count == last) disk.CutPower(after.path(), static_cast<uint64_t>(last));
      return count >= last ? SQLITE_IOERR : SQLITE_OK;
    };
    (void)Store::Open({.folder = folder.path(), .vfs = disk.name()});
    const std::unique_ptr<Store> store = OpenOrFail(after.path());
    ASSERT_NE(store, nullptr) << last;
    EXPECT_TRUE(AddTurn(store.get(), 1).ok());
  }
}

// Writes turns and acknowledges each on the pipe, until it is killed: at an act of the disk, before
// or after it, or by its parent at any time.
[[noreturn]] void WriteUntilKilled(const std::filesystem::path& folder, int pipe, int first,
                                   int kill_at) {
  TestDisk disk;
  int count = 0;
  auto store = Store::Open({.folder = folder, .vfs = disk.name()});
  if (!store.ok()) ::_exit(3);
  disk.on_act = [&](TestDisk::Act, bool, bool) {
    if (++count == kill_at) ::kill(::getpid(), SIGKILL);
    return SQLITE_OK;
  };
  for (int turn = first; turn < first + 1000; ++turn) {
    if (!AddTurn(store->get(), turn).ok()) ::_exit(4);
    if (::write(pipe, &turn, sizeof(turn)) != sizeof(turn)) ::_exit(5);
  }
  ::_exit(6);
}

TEST(StoreWeatherTest, KillsLoseNothingThatWasAcknowledged) {
  const TestFolder folder;
  std::vector<int> acknowledged;
  int next = 1;
  const char* wanted = std::getenv("MOORING_TEST_KILLS");  // for bench/store_kills.sh
  const int cycles = wanted == nullptr ? 50 : std::atoi(wanted);
  for (int cycle = 0; cycle < cycles; ++cycle) {
    const bool at_a_point = cycle % 2 == 0;
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      WriteUntilKilled(folder.path(), ends[1], next,
                       at_a_point ? 1 + cycle % 80 * 2 + cycle / 160 : -1);
    }
    ::close(ends[1]);
    const size_t enough =
        acknowledged.size() + 1 + RandomBits(9, 0, static_cast<uint64_t>(cycle)) % 6;
    int turn = 0;
    while (::read(ends[0], &turn, sizeof(turn)) == sizeof(turn)) {
      acknowledged.push_back(turn);
      if (!at_a_point && acknowledged.size() == enough) ::kill(child, SIGKILL);
    }
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    next += 1000;
    const std::unique_ptr<Store> store = OpenOrFail(folder.path());
    ASSERT_NE(store, nullptr);
    ExpectTurns(store.get(), acknowledged);
    ASSERT_FALSE(testing::Test::HasFailure()) << "cycle " << cycle;
  }
  EXPECT_GT(acknowledged.size(), 50U);
}

// Flips one bit after the other, a sample of all, and reads everything: an error or what was there.
TEST(StoreWeatherTest, FlippedBitsAreErrorsOrNothing) {
  const TestFolder folder;
  {
    const auto store = OpenOrFail(folder.path());
    for (int turn = 1; turn <= 10; ++turn) ASSERT_TRUE(AddTurn(store.get(), turn).ok());
  }
  const std::filesystem::path file = folder.path() / Store::kFileName;
  const std::string good = ContentOf(file);
  ASSERT_GT(good.size(), 16U * 4096);
  int refused = 0, unharmed = 0;
  for (uint64_t i = 0; i < 600; ++i) {
    // The first page's head bit by bit, then anywhere.
    const size_t bit = i < 200 ? i * 4 : RandomBits(3, 0, i) % (good.size() * 8);
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bad;
    std::filesystem::remove(file.string() + "-wal");
    auto store = Store::Open({.folder = folder.path()});
    const Status status = store.ok() ? (*store)->Verify() : Status(store.error());
    if (status.ok()) {
      ++unharmed;  // of a page that nothing reads
      ExpectTurns(store->get(), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
      continue;
    }
    ++refused;
    EXPECT_EQ(status.error().kind, ErrorKind::kModelInvalid) << bit << status.error().Message();
  }
  EXPECT_GT(refused, 590);
  // Every length of it.
  for (size_t size = 0; size < good.size(); size += 1777) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << good.substr(0, size);
    std::filesystem::remove(file.string() + "-wal");
    auto store = Store::Open({.folder = folder.path()});
    if (store.ok() && size > 0) {
      EXPECT_FALSE((*store)->Verify().ok()) << size;
    }
  }
  std::ofstream(file, std::ios::binary | std::ios::trunc) << good;
  const auto store = OpenOrFail(folder.path());
  ExpectTurns(store.get(), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST(StoreWeatherTest, AnotherProcessIsNamed) {
  const TestFolder folder;
  const auto store = OpenOrFail(folder.path());
  const auto error = OpenError(folder.path());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind, ErrorKind::kStateHeld);
  EXPECT_THAT(error->Message(), HasSubstr("process " + std::to_string(::getpid())));
}

void Execute(const std::filesystem::path& file, const char* sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_close(database);
}

TEST(StoreWeatherTest, ForeignFilesAreRefusedAndUntouched) {
  const TestFolder folder;
  const std::filesystem::path file = folder.path() / Store::kFileName;
  folder.Write(std::string(Store::kFileName), std::string(10000, 'x'));
  EXPECT_EQ(OpenError(folder.path())->kind, ErrorKind::kModelInvalid);
  EXPECT_EQ(ContentOf(file), std::string(10000, 'x'));
  std::filesystem::remove(file);
  std::filesystem::create_symlink(folder.path() / "elsewhere", file);
  EXPECT_EQ(OpenError(folder.path())->kind, ErrorKind::kFailed);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "elsewhere"));
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_TRUE(OpenError(folder.path()).has_value());
  std::filesystem::remove(file);
  Execute(file, "CREATE TABLE other (a)");
  EXPECT_EQ(OpenError(folder.path())->kind, ErrorKind::kModelInvalid);
}

TEST(StoreWeatherTest, FoldersThatCannotBeWrittenAreRefused) {
  const TestFolder folder;
  folder.Write("file", "");
  for (const char* name : {"file", "file/below"}) {
    const auto error = OpenError(folder.path() / name);
    ASSERT_TRUE(error.has_value()) << name;
    EXPECT_EQ(error->kind, ErrorKind::kFailed);
    EXPECT_FALSE(error->remedy.empty());
  }
  // As a user who may not write there.
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    const auto error = OpenError(folder.path());
    ::_exit(error.has_value() && error->kind == ErrorKind::kFailed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::chmod(folder.path().c_str(), 0755);
}

// Appending must not read what was said before.
TEST(StoreWeatherTest, ALongTalkIsAppendedToWithoutReadingIt) {
  const TestFolder folder;
  TestDisk disk;
  {
    const auto store = OpenOrFail(folder.path());
    const auto made = store->Create(kOwner, {.name = "talk"});
    ConversationArchive archive = *store->Export({kOwner, made->id});
    archive.info.name = "long";
    for (size_t i = 0; i < 200; ++i) {
      StoredMessage message{.id = "msg_" + std::to_string(i),
                            .role = i % 2 == 0 ? "user" : "assistant",
                            .text = std::string(20000, 't')};
      message.from = {static_cast<int64_t>(i) * 5000};
      message.to = message.from + 5000;
      message.tokens = TokensFrom(10000, 5000, i % 2 != 0);
      archive.messages.push_back({.message = std::move(message)});
      if (i > 0) archive.messages.back().parent = i - 1;
    }
    archive.branches[0].tip = 199;
    const auto info = store->Import(kOwner, archive);
    ASSERT_TRUE(info.ok()) << info.error().Message();
    EXPECT_EQ(info->log_end, LogIndex{1'000'000});
    ASSERT_TRUE(store->Delete({kOwner, made->id}).ok());
    ASSERT_TRUE(store->Rename({kOwner, info->id}, "talk").ok());
  }
  const auto store = OpenOrFail(folder.path(), disk.name());
  disk.bytes_read = 0;
  ASSERT_TRUE(AddTurn(store.get(), 1).ok());
  EXPECT_EQ(store->Find(kOwner, "talk")->log_end, LogIndex{1'000'050});
  EXPECT_LT(disk.bytes_read, 60 * 4096);  // of some 7 million that it holds
}

}  // namespace
}  // namespace mooring
