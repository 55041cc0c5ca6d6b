#include "talk/matching.h"

#include <openssl/evp.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "talk/byte_stream.h"

namespace mooring {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";
constexpr std::string_view kBlanks = " \t\n\v\f\r";
// Shorter answers ("Yes.") stand in too many talks to tell one.
constexpr size_t kTellingCharacters = 16;

MessageHash HashBytes(std::string_view bytes) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest = {};
  unsigned int size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  MessageHash hash;
  std::copy_n(digest.begin(), hash.bytes.size(), hash.bytes.begin());
  return hash;
}

std::string WithLineFeeds(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      out += '\n';
    }
  }
  return out;
}

std::string WithoutReasoning(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t open = text.find(kThinkOpen);
    const size_t close = open == text.npos ? open : text.find(kThinkClose, open);
    if (close == text.npos) return out.append(text);
    out.append(text.substr(0, open));
    text.remove_prefix(close + kThinkClose.size());
  }
}

size_t CountCodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

bool IsAnswer(std::string_view role) { return role == "assistant"; }

// A chain beside a request: the messages of both that take part, and where they agree.
class Alignment {
 public:
  Alignment(std::span<const ChainMessage> chain, const RequestHistory& request)
      : chain_(chain), request_(request) {
    for (size_t i = 0; i < chain.size(); ++i) {
      if (TakesPart(chain[i])) places_.push_back(i);
    }
    const auto& parts = request.parts();
    while (first_answer_ < parts.size() && !parts[first_answer_].answer) ++first_answer_;
    Number();
    FindRuns();
  }

  size_t chain_parts() const { return places_.size(); }
  // How many of the request's first parts stand in the chain from its part `start` on.
  size_t run(size_t start) const { return runs_[start]; }
  bool AnswerIsKept() const { return answer_is_kept_; }
  bool HoldsAnswer(size_t run) const { return run > first_answer_; }

  MatchVerdict Verdict(size_t start, size_t run, const std::optional<MessageHash>& current) const {
    MatchVerdict verdict;
    verdict.run = run;
    verdict.first_new =
        run < request_.parts().size() ? request_.parts()[run].index : request_.request_size();
    verdict.kept = chain_.size();
    std::optional<MessageHash> holding = current;
    if (run > 0 && start + run == places_.size()) {
      verdict.kind = start == 0 ? MatchKind::kExact : MatchKind::kSuffix;
    } else {
      verdict.kind = MatchKind::kFork;
      verdict.kept = run > 0 ? places_[start + run - 1] + 1 : LeadingInstructions();
      holding = InstructionsBefore(verdict.kept);
    }
    verdict.instructions = ChangedInstructions(request_, holding);
    return verdict;
  }

  static std::optional<std::string> ChangedInstructions(const RequestHistory& request,
                                                        const std::optional<MessageHash>& holding) {
    const auto& wanted = request.instructions();
    if (!wanted || (holding && HashMessage("system", *wanted) == *holding)) return std::nullopt;
    return wanted;
  }

 private:
  // Equal messages get equal numbers: those of the request by their order, -1 for what is not in
  // it.
  void Number() {
    std::map<MessageHash, std::vector<size_t>> known;  // hash -> parts with different texts
    const auto& parts = request_.parts();
    for (size_t i = 0; i < parts.size(); ++i) {
      std::vector<size_t>& same = known[parts[i].hash];
      const auto it = std::find_if(same.begin(), same.end(), [&](size_t other) {
        return parts[other].text == parts[i].text && parts[other].answer == parts[i].answer;
      });
      if (it != same.end()) {
        numbers_.push_back(static_cast<int64_t>(*it));
        continue;
      }
      same.push_back(i);
      numbers_.push_back(static_cast<int64_t>(i));
    }
    for (const size_t place : places_) {
      const ChainMessage& message = chain_[place];
      int64_t number = -1;
      if (const auto same = known.find(message.hash); same != known.end()) {
        const std::string text = message.forgotten ? "" : NormalText(message.role, message.text);
        for (const size_t part : same->second) {
          if (!message.forgotten && text != parts[part].text) continue;
          number = static_cast<int64_t>(part);
          answer_is_kept_ = answer_is_kept_ || parts[part].answer;
          break;
        }
      }
      numbers_.push_back(number);
    }
  }

  // The Z-function over request and chain (Gusfield 1997): linear, however often a talk repeats
  // itself.
  void FindRuns() {
    const size_t request_parts = request_.parts().size();
    std::vector<int64_t> text(numbers_.begin(),
                              numbers_.begin() + static_cast<std::ptrdiff_t>(request_parts));
    text.push_back(-2);
    text.insert(text.end(), numbers_.begin() + static_cast<std::ptrdiff_t>(request_parts),
                numbers_.end());
    std::vector<size_t> z(text.size(), 0);
    size_t left = 0, right = 0;  // the match [left, right) that reaches farthest
    for (size_t i = 1; i < text.size(); ++i) {
      if (i < right) z[i] = std::min(right - i, z[i - left]);
      while (i + z[i] < text.size() && text[z[i]] == text[i + z[i]]) ++z[i];
      if (i + z[i] > right) {
        left = i;
        right = i + z[i];
      }
    }
    runs_.assign(z.begin() + static_cast<std::ptrdiff_t>(request_parts) + 1, z.end());
  }

  size_t LeadingInstructions() const {
    return static_cast<size_t>(
        std::find_if(chain_.begin(), chain_.end(),
                     [](const ChainMessage& message) { return !IsInstruction(message.role); }) -
        chain_.begin());
  }

  std::optional<MessageHash> InstructionsBefore(size_t end) const {
    for (size_t i = end; i > 0; --i) {
      if (IsInstruction(chain_[i - 1].role)) return chain_[i - 1].hash;
    }
    return std::nullopt;
  }

  std::span<const ChainMessage> chain_;
  const RequestHistory& request_;
  size_t first_answer_ = 0;       // among the request's parts
  std::vector<size_t> places_;    // of the chain's parts
  std::vector<int64_t> numbers_;  // of the request's parts, then of the chain's
  std::vector<size_t> runs_;      // by part of the chain
  bool answer_is_kept_ = false;
};

MatchVerdict AllNew(size_t kept, const RequestHistory& request,
                    const std::optional<MessageHash>& current) {
  MatchVerdict verdict;
  verdict.kept = kept;
  verdict.instructions = Alignment::ChangedInstructions(request, current);
  return verdict;
}

}  // namespace

std::string NormalText(std::string_view role, std::string_view text) {
  std::string normal = WithLineFeeds(text);
  if (IsAnswer(role)) normal = WithoutReasoning(normal);
  const size_t first = normal.find_first_not_of(kBlanks);
  if (first == normal.npos) return {};
  return normal.substr(first, normal.find_last_not_of(kBlanks) + 1 - first);
}

MessageHash HashMessage(std::string_view role, std::string_view text) {
  std::string bytes;
  ByteWriter writer(&bytes);
  writer.Text(IsInstruction(role) ? "system" : role);
  return HashBytes(bytes + NormalText(role, text));
}

MessageHash HashPair(std::string_view owner, const MessageHash& previous, const MessageHash& last) {
  std::string bytes;
  ByteWriter writer(&bytes);
  writer.Text(owner);
  for (const MessageHash& hash : {previous, last}) {
    for (const uint8_t byte : hash.bytes) writer.Number(byte);
  }
  return HashBytes(bytes);
}

bool IsInstruction(std::string_view role) { return role == "system" || role == "developer"; }

bool TakesPart(std::string_view role, std::string_view text) {
  if (IsAnswer(role)) return !NormalText(role, text).empty();
  return !IsInstruction(role);
}

bool TakesPart(const ChainMessage& message) {
  if (!message.forgotten) return TakesPart(message.role, message.text);
  if (IsAnswer(message.role)) return message.hash != HashMessage(message.role, "");
  return !IsInstruction(message.role);
}

RequestHistory::RequestHistory(std::span<const RequestMessage> request)
    : request_size_(request.size()) {
  for (size_t i = 0; i < request.size(); ++i) {
    const auto& [role, text] = request[i];
    if (IsInstruction(role)) {
      instructions_ = instructions_ ? *instructions_ + "\n\n" + text : text;
    } else if (TakesPart(role, text)) {
      parts_.push_back(Part{.index = i,
                            .answer = IsAnswer(role),
                            .text = NormalText(role, text),
                            .hash = HashMessage(role, text)});
    }
  }
}

bool RequestHistory::has_answer() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.answer; });
}

std::vector<size_t> RequestHistory::HistoryLengths() const {
  std::vector<size_t> lengths;
  const auto consider = [&](size_t length) {
    const auto end = parts_.begin() + static_cast<std::ptrdiff_t>(length);
    const bool telling = std::any_of(parts_.begin(), end, [](const Part& part) {
      return part.answer && CountCodePoints(part.text) >= kTellingCharacters;
    });
    if (length >= 2 && telling && (lengths.empty() || lengths.back() != length)) {
      lengths.push_back(length);
    }
  };
  if (parts_.empty()) return lengths;
  consider(parts_.size() - 1);
  size_t length = parts_.size() - 1;
  while (length > 0 && !parts_[length - 1].answer) --length;
  consider(length);
  return lengths;
}

std::vector<HistoryPair> RequestHistory::Pairs() const {
  std::vector<HistoryPair> pairs;
  for (const size_t length : HistoryLengths()) {
    pairs.push_back({parts_[length - 2].hash, parts_[length - 1].hash});
  }
  return pairs;
}

MatchVerdict AlignRequest(std::span<const ChainMessage> chain, const RequestHistory& request,
                          const std::optional<MessageHash>& current) {
  if (!request.has_answer()) return AllNew(chain.size(), request, current);
  const Alignment alignment(chain, request);
  if (!alignment.AnswerIsKept()) return AllNew(chain.size(), request, current);
  size_t best_start = 0, best_run = 0;
  for (size_t start = 0; start < alignment.chain_parts(); ++start) {
    const size_t run = alignment.run(start);
    if (run < best_run || run == 0) continue;
    const bool ends_with_chain = start + run == alignment.chain_parts();
    if (run == best_run && !ends_with_chain) continue;
    if (start > 0 && !alignment.HoldsAnswer(run)) continue;
    best_start = start;
    best_run = run;
  }
  return alignment.Verdict(best_start, best_run, current);
}

MatchVerdict MatchHistory(std::span<const ChainMessage> chain, const RequestHistory& request,
                          const std::optional<MessageHash>& current) {
  const std::vector<size_t> lengths = request.HistoryLengths();
  if (lengths.empty()) return AllNew(0, request, std::nullopt);
  const Alignment alignment(chain, request);
  for (const size_t length : lengths) {
    size_t best_start = 0, best_run = 0;
    bool best_ends = false;
    for (size_t start = 0; start < alignment.chain_parts(); ++start) {
      const size_t run = alignment.run(start);
      if (run < length) continue;
      const bool ends = start + run == alignment.chain_parts();
      if (std::pair(ends, run) < std::pair(best_ends, best_run)) continue;
      best_start = start;
      best_run = run;
      best_ends = ends;
    }
    if (best_run > 0) return alignment.Verdict(best_start, best_run, current);
  }
  return AllNew(0, request, std::nullopt);
}

}  // namespace mooring
