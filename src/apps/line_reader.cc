#include "apps/line_reader.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/files.h"

namespace mooring {
namespace {

// A signal wakes the wait; this is for the one that comes just before it.
constexpr int kPollMilliseconds = 200;

class PipeReader : public LineReader {
 public:
  PipeReader(int descriptor, std::atomic<bool>* interrupted)
      : descriptor_(descriptor), interrupted_(interrupted) {}

  Result<InputLine> Read(std::string_view /*prompt*/) override {
    for (;;) {
      if (const size_t end = held_.find('\n', searched_); end != std::string::npos) {
        std::string line = held_.substr(0, end);
        held_.erase(0, end + 1);
        searched_ = 0;
        return Line(std::move(line));
      }
      searched_ = held_.size();
      if (held_.size() > kLongestMessageBytes) return CheckMessageText(held_, "input").error();
      if (ended_) {
        if (held_.empty()) return InputLine{InputLine::Kind::kEnd};
        searched_ = 0;
        return Line(std::exchange(held_, {}));
      }
      if (Interrupted()) return InputLine{InputLine::Kind::kInterrupted};
      MOORING_RETURN_IF_ERROR(ReadMore());
    }
  }

  Result<std::string> ReadAll() {
    while (!ended_ && held_.size() <= kLongestMessageBytes) {
      if (Interrupted()) return Error{.kind = ErrorKind::kInterrupted, .what = "interrupted"};
      MOORING_RETURN_IF_ERROR(ReadMore());
    }
    if (held_.ends_with('\n')) held_.pop_back();
    if (held_.ends_with('\r')) held_.pop_back();
    MOORING_RETURN_IF_ERROR(CheckMessageText(held_, "input"));
    return std::move(held_);
  }

 private:
  bool Interrupted() const { return interrupted_ != nullptr && interrupted_->load(); }

  static Result<InputLine> Line(std::string line) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    MOORING_RETURN_IF_ERROR(CheckMessageText(line, "input"));
    return InputLine{InputLine::Kind::kText, std::move(line)};
  }

  Status ReadMore() {
    pollfd wait = {.fd = descriptor_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, kPollMilliseconds);
    if (ready == 0 || (ready < 0 && errno == EINTR)) return {};
    std::array<char, 65536> bytes;
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return Error{
          .kind = KindOfErrno(errno), .what = "cannot read the input", .found = ErrnoText(errno)};
    }
    if (count == 0) ended_ = true;
    if (count > 0) held_.append(bytes.data(), static_cast<size_t>(count));
    return {};
  }

  int descriptor_;
  std::atomic<bool>* interrupted_;
  std::string held_;
  size_t searched_ = 0;  // bytes of held_ known to have no line end
  bool ended_ = false;
};

}  // namespace

Status CheckMessageText(std::string_view text, std::string_view where) {
  if (text.size() > kLongestMessageBytes) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "the text is too long for one message",
                 .where = std::string(where),
                 .expected = fmt::format("at most {} bytes", kLongestMessageBytes),
                 .found = "more",
                 .remedy = "send it in parts"};
  }
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "this is not text",
                 .where = std::string(where),
                 .expected = "no NUL bytes",
                 .found = fmt::format("one at byte {}", nul)};
  }
  return {};
}

Result<std::string> ReadAllInput(int descriptor, std::atomic<bool>* interrupted) {
  return PipeReader(descriptor, interrupted).ReadAll();
}

std::unique_ptr<LineReader> MakePipeReader(int descriptor, std::atomic<bool>* interrupted) {
  return std::make_unique<PipeReader>(descriptor, interrupted);
}

}  // namespace mooring
