#include "talk/recognise.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace mooring {
namespace {

std::vector<ChainMessage> ChainOf(const std::vector<StoredMessage>& stored) {
  std::vector<ChainMessage> chain;
  chain.reserve(stored.size());
  for (const StoredMessage& message : stored) {
    chain.push_back({.role = message.role,
                     .text = message.text,
                     .hash = message.hash,
                     .forgotten = message.forgotten});
  }
  return chain;
}

std::optional<MessageHash> InstructionsAtEnd(const std::vector<ChainMessage>& chain) {
  const auto last = std::find_if(chain.rbegin(), chain.rend(), [](const ChainMessage& message) {
    return IsInstruction(message.role);
  });
  if (last == chain.rend()) return std::nullopt;
  return last->hash;
}

// Unset keeps all of the chain; "" nothing.
std::optional<std::string> AfterOf(const std::vector<StoredMessage>& chain, size_t kept) {
  return kept == 0 ? "" : chain[kept - 1].id;
}

// The branch of a candidate against the request; nothing when it has not the history.
Result<std::optional<Recognised>> Try(Store* store, ConversationKey key,
                                      std::optional<BranchId> branch,
                                      const RequestHistory& request) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<StoredMessage> stored,
                           store->LoadChain(key, {.branch = branch}));
  const std::vector<ChainMessage> chain = ChainOf(stored);
  MatchVerdict verdict = MatchHistory(chain, request, InstructionsAtEnd(chain));
  if (verdict.kind == MatchKind::kNew) return std::optional<Recognised>();
  MOORING_ASSIGN_OR_RETURN(ConversationInfo info, store->Find(key.owner, key.id));
  std::optional<std::string> after = AfterOf(stored, verdict.kept);
  return std::optional(Recognised{
      .conversation = std::move(info), .verdict = std::move(verdict), .after = std::move(after)});
}

// All hold the whole history. One that ends with it goes on as it is, where another would have to
// be read again; and if another was asked the same already, that makes it no likelier the one.
std::tuple<bool, size_t, int64_t> RankOf(const Recognised& found) {
  return {found.verdict.kind != MatchKind::kFork, found.verdict.run, found.conversation.updated_ms};
}

}  // namespace

Result<std::optional<Recognised>> Recognise(Store* store, std::string_view owner,
                                            const RequestHistory& request) {
  std::optional<Recognised> best;
  for (const HistoryPair& pair : request.Pairs()) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<MatchCandidate> candidates,
                             store->FindCandidates(owner, pair));
    std::set<std::pair<std::string_view, BranchId>> tried;
    for (const MatchCandidate& candidate : candidates) {
      // The head first: the branch where the pair was first said may be an old one.
      for (const std::optional<BranchId> branch :
           {std::optional<BranchId>(), std::optional(candidate.branch)}) {
        if (!tried.insert({candidate.conversation, branch.value_or(0)}).second) continue;
        Result<std::optional<Recognised>> tried_one =
            Try(store, {owner, candidate.conversation}, branch, request);
        if (!tried_one.ok()) {
          // Deleted since it was found.
          if (tried_one.error().kind == ErrorKind::kNotFound) continue;
          return tried_one.error();
        }
        std::optional<Recognised>& found = *tried_one;
        if (found && (!best || RankOf(*found) > RankOf(*best))) best = std::move(found);
      }
    }
    if (best) return best;
  }
  return best;
}

Result<Recognised> Align(Store* store, std::string_view owner, const ConversationInfo& conversation,
                         const RequestHistory& request) {
  Recognised aligned{.conversation = conversation};
  if (!request.has_answer()) {
    aligned.verdict = AlignRequest({}, request, conversation.system_hash);
    return aligned;
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<StoredMessage> stored,
                           store->LoadChain({owner, conversation.id}, {}));
  const std::vector<ChainMessage> chain = ChainOf(stored);
  aligned.verdict = AlignRequest(chain, request, InstructionsAtEnd(chain));
  if (aligned.verdict.kind == MatchKind::kFork) {
    aligned.after = AfterOf(stored, aligned.verdict.kept);
  }
  return aligned;
}

}  // namespace mooring
