// Numbers and texts as little-endian bytes, and back from bytes that cannot be trusted: a read that
// does not fit poisons the reader, and the caller asks once, at the end.
//
// Thread rule: plain values.
#ifndef MOORING_TALK_BYTE_STREAM_H_
#define MOORING_TALK_BYTE_STREAM_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace mooring {

static_assert(std::endian::native == std::endian::little);

class ByteWriter {
 public:
  explicit ByteWriter(std::string* out) : out_(out) {}

  template <typename T>
  void Number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_->append(bytes, sizeof(T));
  }
  // 7 bits a byte, lowest first; all bytes but the last have the highest bit set.
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Number(static_cast<uint8_t>(value | 0x80));
    Number(static_cast<uint8_t>(value));
  }
  // A length (u64), then the bytes.
  void Text(std::string_view text) {
    Number<uint64_t>(text.size());
    out_->append(text);
  }

 private:
  std::string* out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Number() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value{};
    const std::string_view bytes = Bytes(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = Number<uint8_t>();
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;  // more than 64 bits
    return 0;
  }
  std::string Text() { return std::string(Bytes(Number<uint64_t>())); }
  // The next `size` bytes, or nothing, and a poisoned reader, when there are fewer.
  std::string_view Bytes(uint64_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  bool ok() const { return ok_; }
  // Whether everything fitted and nothing is left.
  bool complete() const { return ok_ && rest_.empty(); }
  uint64_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace mooring

#endif  // MOORING_TALK_BYTE_STREAM_H_
