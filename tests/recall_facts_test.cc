// What the default model still knows of what was said once, with the encoder of its memory: a small
// run of `mooring eval recall`, with bars that an unlucky draw does not break. The figures are in
// docs/memory.md.

#include "eval/recall_facts.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/random.h"
#include "engine/text_encoder.h"
#include "tests/support.h"

namespace mooring::test {
namespace {

// Talk of this and that, no sentence twice.
std::string Filler() {
  constexpr std::array<std::string_view, 12> kWho = {"farmer",  "teacher",  "captain", "neighbour",
                                                     "painter", "widow",    "baker",   "doctor",
                                                     "student", "gardener", "clerk",   "shepherd"};
  constexpr std::array<std::string_view, 10> kDid = {"described", "admired", "sold",   "repaired",
                                                     "carried",   "lost",    "bought", "painted",
                                                     "cleaned",   "praised"};
  constexpr std::array<std::string_view, 12> kWhat = {
      "wooden boat",  "old piano",  "silver spoon", "summer house", "grey horse", "woollen coat",
      "stone bridge", "apple tree", "long letter",  "small lamp",   "new carpet", "copper kettle"};
  constexpr std::array<std::string_view, 8> kWhere = {
      "behind the church", "near the river", "after the rain",  "before breakfast",
      "in the valley",     "on the hill",    "during the fair", "under the moon"};
  std::string text;
  for (uint64_t i = 0; text.size() < 200'000; ++i) {
    const uint64_t bits = RandomBits(7, 0, i);
    text += "The ";
    text += kWho[bits % kWho.size()];
    text += ' ';
    text += kDid[(bits >> 8) % kDid.size()];
    text += " the ";
    text += kWhat[(bits >> 16) % kWhat.size()];
    text += ' ';
    text += kWhere[(bits >> 24) % kWhere.size()];
    text += ". ";
  }
  return text;
}

class RecallFactsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "measured in a release build";
    const auto model = DefaultModelPath();
    const auto encoder = DefaultEncoderPath();
    if (!model || !encoder) GTEST_SKIP() << "the default model and the encoder are not there";
    loaded_ = Load(*model, {.precision = Precision::kAuto});
    encoder_ = std::move(TextEncoder::Open(*encoder, loaded_.backend.get())).value();
    engine_ = MakeEngine(
        loaded_,
        {.policy = "recall",
         .window = {.capacity = 1024, .anchors = 32, .expire_by_page = false, .recalled = 128},
         .key_value = DType::kQ8_0,
         .conversations = 2});
    terms_ = std::make_unique<const TermTable>(*loaded_.tokenizer);
    template_ = std::make_unique<ChatTemplate>(
        std::move(ChatTemplate::Named("chatml", *loaded_.tokenizer)).value());
  }
  RecallFactsReport Measure(bool other_words, bool by_meaning, int64_t items = 12) {
    const Meaning meaning = {encoder_->dim(), 1,
                             [this](std::string_view text) { return encoder_->Encode(text); }};
    auto report = MeasureRecallOfFacts(
        *engine_, *template_, *terms_, by_meaning ? meaning : Meaning{}, Filler(),
        {.distance = 1200, .items = items, .tuning_wordings = true, .other_words = other_words},
        [](int64_t /*done*/, int64_t /*total*/) {});
    EXPECT_TRUE(report.ok()) << report.error().Message();
    return std::move(report).value();
  }

  LoadedModel loaded_;
  std::unique_ptr<TextEncoder> encoder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<const TermTable> terms_;
  std::unique_ptr<ChatTemplate> template_;
};

TEST_F(RecallFactsTest, InTheSameWords) {
  const RecallFactsReport report = Measure(false, true);
  EXPECT_EQ(report.Accuracy(&RecallItem::without), 0.0);
  EXPECT_GE(report.SpanHit(), 0.75);
  EXPECT_GE(report.Retention(), 0.7);
}

TEST_F(RecallFactsTest, InOtherWordsByTheirMeaning) {
  const RecallFactsReport report = Measure(true, true);
  EXPECT_GE(report.SpanHit(), 0.6);
  EXPECT_GE(report.Retention(), 0.5);
  EXPECT_LE(Measure(true, false, 6).SpanHit(), 0.2);
}

}  // namespace
}  // namespace mooring::test
