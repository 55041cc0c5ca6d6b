#include "talk/matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/random.h"

namespace mooring {
namespace {

constexpr const char* kLong = "It is called Fado, as you said.";

struct Said {
  std::string role;
  std::string text;
  bool forgotten = false;
};

std::vector<ChainMessage> ChainOf(const std::vector<Said>& said) {
  std::vector<ChainMessage> chain;
  for (const auto& [role, text, forgotten] : said) {
    chain.push_back({.role = role,
                     .text = forgotten ? std::string_view() : text,
                     .hash = HashMessage(role, text),
                     .forgotten = forgotten});
  }
  return chain;
}

RequestHistory RequestOf(const std::vector<Said>& said) {
  std::vector<RequestMessage> request;
  for (const auto& [role, text, forgotten] : said) request.push_back({role, text});
  return RequestHistory(request);
}

const std::vector<Said> kTalk = {{"user", "My dog is called Fado."},
                                 {"assistant", "What a beautiful name!"},
                                 {"user", "What is it called?"},
                                 {"assistant", kLong}};

std::vector<Said> Plus(std::vector<Said> said, const std::vector<Said>& more) {
  said.insert(said.end(), more.begin(), more.end());
  return said;
}

std::vector<Said> Without(std::vector<Said> said, size_t first) {
  said.erase(said.begin(), said.begin() + static_cast<std::ptrdiff_t>(first));
  return said;
}

MatchVerdict AlignSaid(const std::vector<Said>& chain, const std::vector<Said>& request) {
  return AlignRequest(ChainOf(chain), RequestOf(request), std::nullopt);
}

MatchVerdict MatchSaid(const std::vector<Said>& chain, const std::vector<Said>& request) {
  return MatchHistory(ChainOf(chain), RequestOf(request), std::nullopt);
}

TEST(NormalTextTest, DropsWhatClientsChange) {
  EXPECT_EQ(NormalText("user", " \r\n a\r\nb\rc\td \n"), "a\nb\nc\td");
  EXPECT_EQ(NormalText("assistant", "<think>hm\n</think>\n\nYes<think></think>!"), "Yes!");
  EXPECT_EQ(NormalText("user", "<think>hm</think>Yes"), "<think>hm</think>Yes");
  EXPECT_EQ(NormalText("assistant", "<think>no end"), "<think>no end");
  EXPECT_EQ(NormalText("assistant", "</think>a<think>b</think>"), "</think>a");
  EXPECT_EQ(NormalText("user", " \n\r\n"), "");
  EXPECT_EQ(NormalText("user", std::string_view("\0 a\xFF ", 5)), std::string_view("\0 a\xFF", 4));
}

TEST(HashTest, TellsRoleAndTextAndOwner) {
  EXPECT_EQ(HashMessage("user", "a\r\n"), HashMessage("user", "a"));
  EXPECT_NE(HashMessage("user", "a"), HashMessage("assistant", "a"));
  EXPECT_NE(HashMessage("user", "a"), HashMessage("user", "A"));
  EXPECT_EQ(HashMessage("developer", "a"), HashMessage("system", "a"));
  const MessageHash a = HashMessage("user", "a"), b = HashMessage("user", "b");
  EXPECT_NE(HashPair("me", a, b), HashPair("you", a, b));
  EXPECT_NE(HashPair("me", a, b), HashPair("me", b, a));
}

TEST(AlignTest, ANewMessageAloneIsNew) {
  const MatchVerdict verdict = AlignSaid(kTalk, {{"user", "What is it called?"}});
  EXPECT_EQ(verdict, (MatchVerdict{.kind = MatchKind::kNew, .kept = 4}));
  EXPECT_FALSE(RequestOf({{"user", "What is it called?"}}).has_answer());
  // An answer that was never given here tells nothing either.
  EXPECT_EQ(AlignSaid(kTalk, {{"user", "My dog is called Fado."}, {"assistant", "Oh."}}).kind,
            MatchKind::kNew);
}

TEST(AlignTest, AWholeHistoryIsExact) {
  EXPECT_EQ(AlignSaid(kTalk, Plus(kTalk, {{"user", "Thanks"}})),
            (MatchVerdict{.kind = MatchKind::kExact, .kept = 4, .first_new = 4, .run = 4}));
  EXPECT_EQ(AlignSaid(kTalk, kTalk),
            (MatchVerdict{.kind = MatchKind::kExact, .kept = 4, .first_new = 4, .run = 4}));
}

TEST(AlignTest, AnEndOfTheHistoryIsASuffix) {
  EXPECT_EQ(AlignSaid(kTalk, Plus(Without(kTalk, 2), {{"user", "Thanks"}})),
            (MatchVerdict{.kind = MatchKind::kSuffix, .kept = 4, .first_new = 2, .run = 2}));
}

TEST(AlignTest, AnEditForksWhereItIs) {
  std::vector<Said> edited = Plus(kTalk, {{"user", "Thanks"}});
  edited[2].text = "What is its name?";
  EXPECT_EQ(AlignSaid(kTalk, edited),
            (MatchVerdict{.kind = MatchKind::kFork, .kept = 2, .first_new = 2, .run = 2}));
  edited[0].text = "My cat is called Fado.";
  EXPECT_EQ(AlignSaid(kTalk, edited), (MatchVerdict{.kind = MatchKind::kFork}));
}

TEST(AlignTest, ARequestThatEndsEarlierForksThere) {
  const std::vector<Said> shorter(kTalk.begin(), kTalk.begin() + 3);
  EXPECT_EQ(AlignSaid(kTalk, shorter),
            (MatchVerdict{.kind = MatchKind::kFork, .kept = 3, .first_new = 3, .run = 3}));
}

TEST(AlignTest, ARepeatedStartDoesNotHideALongerRun) {
  const std::vector<Said> chain = {{"user", "Hi"},    {"assistant", "Hello"},
                                   {"user", "Go on"}, {"assistant", "On"},
                                   {"user", "Hi"},    {"assistant", "Hello"}};
  EXPECT_EQ(AlignSaid(chain, {chain[0], chain[1], chain[2], {"assistant", "Off"}}),
            (MatchVerdict{.kind = MatchKind::kFork, .kept = 3, .first_new = 3, .run = 3}));
  EXPECT_EQ(AlignSaid(chain, {chain[0], chain[1], {"user", "More"}}),
            (MatchVerdict{.kind = MatchKind::kSuffix, .kept = 6, .first_new = 2, .run = 2}));
}

TEST(AlignTest, InstructionsAndEmptyAnswersStandAside) {
  const std::vector<Said> chain = {{"system", "Be brief."},
                                   kTalk[0],
                                   kTalk[1],
                                   {"assistant", ""},
                                   kTalk[2],
                                   kTalk[3],
                                   {"assistant", "<think>stopped</think>"}};
  std::vector<Said> request = Plus({{"developer", "Be brief. "}}, kTalk);
  request.push_back({"user", "Thanks"});
  const auto hash = HashMessage("system", "Be brief.");
  MatchVerdict verdict = AlignRequest(ChainOf(chain), RequestOf(request), hash);
  EXPECT_EQ(verdict,
            (MatchVerdict{.kind = MatchKind::kExact, .kept = 7, .first_new = 5, .run = 4}));
  request[0].text = "Be kind.";
  verdict = AlignRequest(ChainOf(chain), RequestOf(request), hash);
  EXPECT_EQ(verdict.kind, MatchKind::kExact);
  EXPECT_EQ(verdict.instructions, "Be kind.");
  // A fork at the beginning goes on under the instructions that stood there.
  request[0].text = "Be brief.";
  request[1].text = "other";
  verdict = AlignRequest(ChainOf(chain), RequestOf(request), std::nullopt);
  EXPECT_EQ(verdict, (MatchVerdict{.kind = MatchKind::kFork, .kept = 1, .first_new = 1}));
}

TEST(AlignTest, AForkIsUnderTheInstructionsOfItsPlace) {
  const std::vector<Said> chain = {{"system", "A"}, kTalk[0], kTalk[1],
                                   {"system", "B"}, kTalk[2], kTalk[3]};
  const std::vector<Said> request = {{"system", "B"}, kTalk[0], kTalk[1], {"user", "else"}};
  const MatchVerdict verdict =
      AlignRequest(ChainOf(chain), RequestOf(request), HashMessage("system", "B"));
  EXPECT_EQ(verdict.kept, 3U);
  EXPECT_EQ(verdict.instructions, "B");
  EXPECT_EQ(RequestOf({{"system", "A"}, {"developer", "B"}}).instructions(), "A\n\nB");
}

TEST(AlignTest, HashesAloneProveNothing) {
  std::vector<ChainMessage> chain = ChainOf(kTalk);
  chain[1].text = "Another answer with the same hash.";
  const RequestHistory request = RequestOf(Plus(kTalk, {{"user", "Thanks"}}));
  EXPECT_EQ(AlignRequest(chain, request, std::nullopt).kept, 1U);
  // Of what was forgotten the hash is all there is.
  chain[1].text = "";
  chain[1].forgotten = true;
  EXPECT_EQ(AlignRequest(chain, request, std::nullopt).kind, MatchKind::kExact);
}

TEST(MatchTest, TakesAWholeHistoryOnly) {
  const std::vector<Said> thanks = {{"user", "Thanks"}};
  EXPECT_EQ(MatchSaid(kTalk, Plus(kTalk, thanks)).kind, MatchKind::kExact);
  EXPECT_EQ(MatchSaid(kTalk, Plus(Without(kTalk, 2), thanks)).kind, MatchKind::kSuffix);
  std::vector<Said> edited = Plus(kTalk, thanks);
  edited[0].text = "My cat is called Fado.";
  EXPECT_EQ(MatchSaid(kTalk, edited), MatchVerdict{});
  // The same answer again: a fork that keeps the message.
  const std::vector<Said> again(kTalk.begin(), kTalk.begin() + 3);
  EXPECT_EQ(MatchSaid(kTalk, again),
            (MatchVerdict{.kind = MatchKind::kFork, .kept = 3, .first_new = 3, .run = 3}));
}

TEST(MatchTest, NeedsAnAnswerThatTells) {
  const std::vector<Said> brief = {{"user", "Hi"}, {"assistant", "Fifteen charsé."}};
  EXPECT_EQ(MatchSaid(brief, Plus(brief, {{"user", "More"}})).kind, MatchKind::kNew);
  const std::vector<Said> enough = {{"user", "Hi"}, {"assistant", "Sixteen charact."}};
  EXPECT_EQ(MatchSaid(enough, Plus(enough, {{"user", "More"}})).kind, MatchKind::kExact);
  EXPECT_TRUE(RequestOf({{"assistant", kLong}, {"user", "a"}}).Pairs().empty());
  EXPECT_TRUE(RequestOf({}).Pairs().empty());
}

TEST(MatchTest, LooksBehindTheLastAnswerToo) {
  // The second message was never accepted here.
  const auto pairs = RequestOf(Plus(kTalk, {{"user", "lost"}, {"user", "again"}})).Pairs();
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].last, HashMessage("user", "lost"));
  EXPECT_EQ(pairs[1].last, HashMessage("assistant", kLong));
  EXPECT_EQ(MatchSaid(kTalk, Plus(kTalk, {{"user", "lost"}, {"user", "again"}})),
            (MatchVerdict{.kind = MatchKind::kExact, .kept = 4, .first_new = 4, .run = 4}));
}

// --- Against the rules written down plainly, every run tried.

struct Plain {
  std::vector<Said> chain, request;
  std::vector<size_t> chain_at, request_at;
};

bool Same(const Said& a, const Said& b) {
  return a.role == b.role && NormalText(a.role, a.text) == NormalText(b.role, b.text);
}

Plain PlainOf(const std::vector<Said>& chain, const std::vector<Said>& request) {
  Plain plain;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (!TakesPart(chain[i].role, chain[i].text)) continue;
    plain.chain.push_back(chain[i]);
    plain.chain_at.push_back(i);
  }
  for (size_t i = 0; i < request.size(); ++i) {
    if (!TakesPart(request[i].role, request[i].text)) continue;
    plain.request.push_back(request[i]);
    plain.request_at.push_back(i);
  }
  return plain;
}

size_t PlainRun(const Plain& plain, size_t start) {
  size_t run = 0;
  while (run < plain.request.size() && start + run < plain.chain.size() &&
         Same(plain.request[run], plain.chain[start + run])) {
    ++run;
  }
  return run;
}

MatchVerdict PlainVerdict(const Plain& plain, const std::vector<Said>& chain, size_t request_size,
                          size_t start, size_t run) {
  MatchVerdict verdict{.kept = chain.size(), .run = run};
  verdict.first_new = run < plain.request.size() ? plain.request_at[run] : request_size;
  if (run > 0 && start + run == plain.chain.size()) {
    verdict.kind = start == 0 ? MatchKind::kExact : MatchKind::kSuffix;
    return verdict;
  }
  verdict.kind = MatchKind::kFork;
  verdict.kept = 0;
  while (run == 0 && verdict.kept < chain.size() && IsInstruction(chain[verdict.kept].role)) {
    ++verdict.kept;
  }
  if (run > 0) verdict.kept = plain.chain_at[start + run - 1] + 1;
  return verdict;
}

MatchVerdict PlainAlign(const std::vector<Said>& chain, const std::vector<Said>& request) {
  const Plain plain = PlainOf(chain, request);
  const auto is_answer = [](const Said& said) { return said.role == "assistant"; };
  bool answer_is_kept = false;
  for (const Said& a : plain.request) {
    for (const Said& b : plain.chain) answer_is_kept |= is_answer(a) && Same(a, b);
  }
  if (!answer_is_kept) return MatchVerdict{.kept = chain.size()};
  // run, ends with the chain, nearness to its beginning, start
  std::tuple<size_t, bool, size_t, size_t> best = {0, false, chain.size(), 0};
  for (size_t start = 0; start < plain.chain.size(); ++start) {
    const size_t run = PlainRun(plain, start);
    const bool answered = std::any_of(
        plain.request.begin(), plain.request.begin() + static_cast<std::ptrdiff_t>(run), is_answer);
    if (start > 0 && !answered) continue;
    const bool ends = run > 0 && start + run == plain.chain.size();
    best = std::max(best, std::tuple(run, ends, chain.size() - start, start));
  }
  return PlainVerdict(plain, chain, request.size(), std::get<3>(best), std::get<0>(best));
}

MatchVerdict PlainMatch(const std::vector<Said>& chain, const std::vector<Said>& request) {
  const Plain plain = PlainOf(chain, request);
  size_t last_answer = plain.request.size();
  while (last_answer > 0 && plain.request[last_answer - 1].role != "assistant") --last_answer;
  std::vector<size_t> histories = {plain.request.empty() ? 0 : plain.request.size() - 1};
  if (last_answer <= histories[0]) histories.push_back(last_answer);
  if (last_answer == plain.request.size() && last_answer > 0) {
    last_answer = histories[0];
    while (last_answer > 0 && plain.request[last_answer - 1].role != "assistant") --last_answer;
    histories.push_back(last_answer);
  }
  for (const size_t history : histories) {
    if (history < 2) continue;
    bool tells = false;
    for (size_t i = 0; i < history; ++i) {
      tells |= plain.request[i].role == "assistant" &&
               NormalText("assistant", plain.request[i].text).size() >= 16;  // ASCII here
    }
    if (!tells) continue;
    std::tuple<bool, size_t, size_t> best = {false, 0, 0};  // ends, run, start
    for (size_t start = 0; start < plain.chain.size(); ++start) {
      const size_t run = PlainRun(plain, start);
      if (run < history) continue;
      best = std::max(best, std::tuple(start + run == plain.chain.size(), run, start));
    }
    if (std::get<1>(best) == 0) continue;
    return PlainVerdict(plain, chain, request.size(), std::get<2>(best), std::get<1>(best));
  }
  return MatchVerdict{};
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  size_t Below(size_t limit) { return RandomBits(seed_, 0, count_++) % limit; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

// Few different messages, so that talks repeat themselves.
Said AnyMessage(Dice* dice) {
  constexpr const char* kTexts[] = {"a",
                                    " a\r\n",
                                    "b",
                                    "c",
                                    "",
                                    "an answer that tells a talk",
                                    "<think>x</think>an answer that tells a talk"};
  constexpr const char* kRoles[] = {"user", "assistant", "user", "assistant", "system", "tool"};
  return {kRoles[dice->Below(6)], kTexts[dice->Below(7)]};
}

std::vector<Said> AnyRequest(Dice* dice, const std::vector<Said>& chain) {
  std::vector<Said> request = chain;
  if (dice->Below(3) == 0 && !request.empty()) {  // drops its oldest
    request = Without(request, dice->Below(request.size()));
  }
  if (dice->Below(3) == 0 && !request.empty()) request.resize(dice->Below(request.size()));
  for (size_t edits = dice->Below(3); edits > 0 && !request.empty(); --edits) {
    const size_t at = dice->Below(request.size());
    if (dice->Below(2) == 0) {
      request[at] = AnyMessage(dice);
    } else {
      request.insert(request.begin() + static_cast<std::ptrdiff_t>(at), AnyMessage(dice));
    }
  }
  for (size_t more = dice->Below(3); more > 0; --more) request.push_back(AnyMessage(dice));
  return request;
}

TEST(MatchPropertyTest, EqualsTheRulesWrittenPlainly) {
  std::vector<int> kinds(8, 0);
  for (uint64_t seed = 0; seed < 30000; ++seed) {
    Dice dice(seed);
    std::vector<Said> chain;
    for (size_t length = dice.Below(14); length > 0; --length) chain.push_back(AnyMessage(&dice));
    const std::vector<Said> request = AnyRequest(&dice, chain);
    std::vector<Said> kept = chain;
    for (Said& said : kept) said.forgotten = dice.Below(6) == 0;
    MatchVerdict aligned = AlignSaid(kept, request);
    MatchVerdict matched = MatchSaid(kept, request);
    aligned.instructions.reset();
    matched.instructions.reset();
    ASSERT_EQ(aligned, PlainAlign(chain, request)) << seed;
    ASSERT_EQ(matched, PlainMatch(chain, request)) << seed;
    ++kinds[static_cast<size_t>(aligned.kind)];
    ++kinds[4 + static_cast<size_t>(matched.kind)];
  }
  for (const int count : kinds) EXPECT_GT(count, 300);  // none was left out
}

// A talk of one message over and over is as quick as any other.
TEST(MatchPropertyTest, RepetitionIsLinear) {
  std::vector<Said> chain(20000, {"assistant", kLong});
  std::vector<Said> request(16000, {"assistant", kLong});
  const MatchVerdict verdict = MatchSaid(chain, request);
  EXPECT_EQ(verdict.kind, MatchKind::kSuffix);
  EXPECT_EQ(verdict.run, 16000U);
}

}  // namespace
}  // namespace mooring
