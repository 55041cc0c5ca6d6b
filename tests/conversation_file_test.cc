// Conversations in files: whole, exact, and refused when one bit is wrong.

#include "talk/conversation_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "talk/checked_container.h"
#include "tests/support.h"

namespace mooring {
namespace {

using testing::HasSubstr;

constexpr int kWindow = 48;  // small, so that the talk below is far longer

class ConversationFileTest : public testing::Test {
 protected:
  void SetUp() override {
    test::ModelOptions options;
    options.precision = Precision::kAuto;
    loaded_ = test::Load(test::Golden("tiny/f32-d32.gguf"), options);
    engine_ = MakeEngine(kWindow);
    template_.emplace(std::move(ChatTemplate::Named("chatml", *loaded_.tokenizer)).value());
    identity_ = {.model_name = "tiny",
                 .model_sha256 = std::string(64, 'a'),
                 .tokenizer_hash = loaded_.tokenizer->fingerprint(),
                 .template_hash = 7,
                 .isa = std::string(loaded_.backend->kernels().name),
                 .precision = "auto"};
    folder_ = std::filesystem::temp_directory_path() /
              ("conversation_file_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "talk.moor";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Engine> MakeEngine(int window) const {
    return test::MakeEngine(loaded_,
                            {.window = {.capacity = window, .anchors = 4}, .conversations = 3});
  }
  Dialogue Start(Engine* engine) const {
    return std::move(Dialogue::Create(engine, &*template_, "Be brief.")).value();
  }
  std::string Say(Dialogue& dialogue, std::string_view text, int64_t max_tokens) const {
    TurnRequest request;
    request.max_tokens = max_tokens;
    request.sampler.temperature = 0.0F;
    test::RecordingSink sink;
    EXPECT_TRUE(dialogue.Say(text, request, &sink, nullptr).ok());
    std::string ids;
    for (const TokenId id : sink.tokens()) ids += std::to_string(id) + " ";
    return ids;
  }
  Status Save(const Dialogue& dialogue) const {
    return SaveConversation(path_, *engine_, dialogue, sampler_, identity_);
  }
  Result<RestoredConversation> LoadInto(Engine* engine) const {
    return LoadConversation(path_, engine, &*template_, identity_);
  }
  std::string FileBytes() const { return std::move(ReadFile(path_, UINT64_MAX)).value(); }
  // Without a sync: thousands of bad files need not outlive a crash.
  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  test::LoadedModel loaded_;
  std::unique_ptr<Engine> engine_;
  std::optional<ChatTemplate> template_;
  ConversationIdentity identity_;
  SamplerSettings sampler_ = {.temperature = 0.5F, .dry_multiplier = 0.8F, .seed = 42};
  std::filesystem::path folder_, path_;
};

TEST_F(ConversationFileTest, GoesOnExactlyLikeTheTwinThatNeverStopped) {
  Dialogue twin = Start(engine_.get());
  for (int i = 0; i < 6; ++i) Say(twin, "Tell me more, and more.", 20);
  ASSERT_GT(engine_->Find(twin.id())->log().end().value, 3 * kWindow);
  ASSERT_TRUE(Save(twin).ok());

  const std::unique_ptr<Engine> other = MakeEngine(kWindow);
  auto restored = LoadInto(other.get());
  ASSERT_TRUE(restored.ok()) << restored.error().Message();
  EXPECT_EQ(restored->sampler, sampler_);
  ASSERT_EQ(restored->dialogue.turn_count(), twin.turn_count());
  for (size_t i = 0; i < twin.turn_count(); ++i) {
    EXPECT_EQ(restored->dialogue.turn(i), twin.turn(i)) << i;
  }
  EXPECT_EQ(restored->dialogue.system(), twin.system());
  EXPECT_EQ(restored->dialogue.system_is_new(), false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Say(restored->dialogue, "And then?", 64), Say(twin, "And then?", 64)) << i;
  }
}

TEST_F(ConversationFileTest, AnotherKeyValueTypeIsNamedAsTheFlagNamesIt) {
  ASSERT_TRUE(Save(Start(engine_.get())).ok());
  const auto other = test::MakeEngine(
      loaded_, {.window = {.capacity = kWindow, .anchors = 4}, .key_value = DType::kQ8_0});
  const auto restored = LoadInto(other.get());
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().expected, "int8");
  EXPECT_EQ(restored.error().found, "fp16");
  EXPECT_THAT(restored.error().remedy, HasSubstr("--kv fp16"));
}

TEST_F(ConversationFileTest, KeepsAnEmptyConversation) {
  const Dialogue dialogue = Start(engine_.get());
  ASSERT_TRUE(Save(dialogue).ok());
  auto restored = LoadInto(engine_.get());
  ASSERT_TRUE(restored.ok()) << restored.error().Message();
  EXPECT_EQ(restored->dialogue.system(), "Be brief.");
  EXPECT_TRUE(restored->dialogue.system_is_new());
  EXPECT_FALSE(Say(restored->dialogue, "Hello", 4).empty());
}

TEST_F(ConversationFileTest, RefusesEveryFlippedByteAndChangesNothing) {
  Dialogue dialogue = Start(engine_.get());
  Say(dialogue, "Hi", 2);
  ASSERT_TRUE(Save(dialogue).ok());
  const std::string good = FileBytes();
  const std::string before = [&] {
    std::string bytes;
    engine_->AppendSnapshot(dialogue.id(), &bytes);
    return bytes;
  }();
  // All of what is small, and then a sample of the pages.
  for (size_t i = 0; i < good.size(); i += i < 2048 ? 1 : 997) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    Write(bad);
    EXPECT_FALSE(LoadInto(engine_.get()).ok()) << i;
    EXPECT_FALSE(InspectConversation(path_).ok()) << i;
    EXPECT_EQ(FileBytes(), bad) << "a file that is refused is left alone";
  }
  std::string after;
  engine_->AppendSnapshot(dialogue.id(), &after);
  EXPECT_EQ(after, before);
  // No conversation was left behind by all those failures: the engine has room for two more.
  EXPECT_TRUE(engine_->Open().ok());
  EXPECT_TRUE(engine_->Open().ok());
}

TEST_F(ConversationFileTest, RefusesEveryOtherLength) {
  Dialogue dialogue = Start(engine_.get());
  Say(dialogue, "Hi", 2);
  ASSERT_TRUE(Save(dialogue).ok());
  const std::string good = FileBytes();
  for (size_t size = 0; size < good.size(); size += size < 512 ? 1 : 1009) {
    Write(good.substr(0, size));
    EXPECT_FALSE(LoadInto(engine_.get()).ok()) << size;
  }
  Write(good + "x");
  EXPECT_FALSE(LoadInto(engine_.get()).ok());
  Write(good);
  EXPECT_TRUE(LoadInto(engine_.get()).ok());
}

TEST_F(ConversationFileTest, NamesWhatDoesNotFit) {
  Dialogue dialogue = Start(engine_.get());
  Say(dialogue, "Hi", 2);
  ASSERT_TRUE(Save(dialogue).ok());
  const auto refuse = [this](const ConversationIdentity& identity, Engine* engine) {
    const auto loaded = LoadConversation(path_, engine, &*template_, identity);
    EXPECT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().kind, ErrorKind::kConfig);
    return loaded.error().Message();
  };
  ConversationIdentity other = identity_;
  other.model_sha256 = std::string(64, 'b');
  EXPECT_THAT(refuse(other, engine_.get()), HasSubstr("another model"));
  other = identity_;
  other.isa = "elsewhere";
  EXPECT_THAT(refuse(other, engine_.get()), HasSubstr("expected elsewhere"));
  other = identity_;
  ++other.tokenizer_hash;
  EXPECT_THAT(refuse(other, engine_.get()), HasSubstr("tokenizer"));
  const std::unique_ptr<Engine> wider = MakeEngine(64);
  EXPECT_THAT(refuse(identity_, wider.get()), HasSubstr("64 tokens"));
  // The name alone is for people.
  other = identity_;
  other.model_name = "another name of the same file";
  EXPECT_TRUE(LoadConversation(path_, engine_.get(), &*template_, other).ok());
}

TEST_F(ConversationFileTest, AMissingFileIsNotFound) {
  const auto loaded = LoadInto(engine_.get());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kNotFound);
}

TEST_F(ConversationFileTest, AFullDiskLeavesTheOldFile) {
  Dialogue dialogue = Start(engine_.get());
  ASSERT_TRUE(Save(dialogue).ok());
  const std::string old = FileBytes();
  Say(dialogue, "Hi", 2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status saved = Save(dialogue);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().kind, ErrorKind::kResources);
  EXPECT_EQ(FileBytes(), old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  ASSERT_TRUE(Save(dialogue).ok());
  EXPECT_TRUE(LoadInto(engine_.get()).ok());
}

TEST_F(ConversationFileTest, TellsWhatItHolds) {
  Dialogue dialogue = Start(engine_.get());
  Say(dialogue, "Hi \xFF there", 3);  // not UTF-8
  ASSERT_TRUE(Save(dialogue).ok());
  const auto info = InspectConversation(path_);
  ASSERT_TRUE(info.ok()) << info.error().Message();
  EXPECT_EQ(info->version, kContainerVersion);
  EXPECT_EQ(info->identity, identity_);
  EXPECT_EQ(info->window.capacity, kWindow);
  EXPECT_EQ(info->policy, "sinks");
  EXPECT_EQ(info->key_value, "F16");
  EXPECT_EQ(info->turn_count, 1);
  EXPECT_EQ(info->log_tokens, engine_->Find(dialogue.id())->log().end().value);
  const auto text = ExportConversationText(path_);
  ASSERT_TRUE(text.ok());
  const nlohmann::json json = nlohmann::json::parse(*text);
  ASSERT_EQ(json["messages"].size(), 3U);
  EXPECT_EQ(json["messages"][0]["content"], "Be brief.");
  EXPECT_EQ(json["messages"][1]["role"], "user");
  EXPECT_EQ(json["messages"][1]["content"], "Hi \xEF\xBF\xBD there");
}

}  // namespace
}  // namespace mooring
