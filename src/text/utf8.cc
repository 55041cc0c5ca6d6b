#include "text/utf8.h"

#include <algorithm>

namespace mooring {
namespace {

struct Lead {
  uint8_t size;          // bytes of the whole character, 0 for a byte that starts none
  uint8_t second_first;  // the second byte's range, which is where overlong forms, surrogates and
  uint8_t second_last;   // numbers beyond U+10FFFF are cut off
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Char ReadUtf8(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const Lead lead = LeadOf(first);
  if (lead.size == 1) return {Utf8Char::State::kWhole, 1, first};
  if (lead.size == 0) return {Utf8Char::State::kInvalid, 1, 0};
  uint32_t code_point = first & (0xFFU >> (lead.size + 1U));
  for (uint8_t i = 1; i < lead.size; ++i) {
    if (i == text.size()) return {Utf8Char::State::kIncomplete, i, 0};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.second_first : 0x80;
    const uint8_t high = i == 1 ? lead.second_last : 0xBF;
    if (byte < low || byte > high) return {Utf8Char::State::kInvalid, i, 0};
    code_point = (code_point << 6U) | (byte & 0x3FU);
  }
  return {Utf8Char::State::kWhole, lead.size, code_point};
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | (code_point >> 6U));
    put(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    put(0xE0U | (code_point >> 12U));
    put(0x80U | ((code_point >> 6U) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  } else {
    put(0xF0U | (code_point >> 18U));
    put(0x80U | ((code_point >> 12U) & 0x3FU));
    put(0x80U | ((code_point >> 6U) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  }
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    if (c.state != Utf8Char::State::kWhole) return false;
    text.remove_prefix(c.size);
  }
  return true;
}

size_t CountUtf8(std::string_view text) {
  size_t count = 0;
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    text.remove_prefix(c.state == Utf8Char::State::kWhole ? c.size : 1);
    ++count;
  }
  return count;
}

}  // namespace mooring
