// Bytes that strangers wrote (keys, names, member names), made fit for an error message.
//
// Thread rule: pure function.
#ifndef MOORING_LOAD_QUOTE_H_
#define MOORING_LOAD_QUOTE_H_

#include <string>
#include <string_view>

namespace mooring {

// 'text' in single quotes; quotes, backslashes and anything but printable ASCII as \xNN; cut after
// 80 bytes with "...". So a hostile file can neither flood a terminal nor steer it.
std::string QuoteBytes(std::string_view bytes);

}  // namespace mooring

#endif  // MOORING_LOAD_QUOTE_H_
