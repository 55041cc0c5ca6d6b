#include "apps/logprobs_sink.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "text/utf8.h"

namespace mooring {

void LogprobsSink::OnLogits(LogIndex /*index*/, std::span<const float> logits) {
  if (top_count_ == 0) return;
  logits_.assign(logits.begin(), logits.end());
  const float largest = *std::ranges::max_element(logits_);
  double sum = 0.0;
  for (const float logit : logits_) sum += std::exp(static_cast<double>(logit - largest));
  log_sum_ = static_cast<double>(largest) + std::log(sum);
}

Json LogprobsSink::Entry(TokenId id) const {
  // A model may have more rows than its tokenizer has tokens.
  const std::string_view piece =
      id < tokenizer_->vocab_size() ? tokenizer_->PieceBytes(id) : std::string_view();
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", std::string(piece)},
          {"id", id},
          {"logprob", static_cast<double>(logits_[static_cast<size_t>(id)]) - log_sum_},
          {"bytes", std::move(bytes)}};
}

void LogprobsSink::OnToken(const SampledToken& token) {
  if (top_count_ == 0) return;
  Json entry = Entry(token.token);
  std::vector<TokenId> ids(logits_.size());
  std::iota(ids.begin(), ids.end(), 0);
  const size_t count = std::min(top_count_, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    [this](TokenId a, TokenId b) {
                      const float x = logits_[static_cast<size_t>(a)];
                      const float y = logits_[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  Json top = Json::array();
  for (size_t i = 0; i < count; ++i) top.push_back(Entry(ids[i]));
  entry["top_logprobs"] = std::move(top);
  content_.push_back(std::move(entry));
}

Json LogprobsSink::Logprobs() const {
  return top_count_ == 0 ? Json(nullptr) : Json{{"content", content_}};
}

}  // namespace mooring
