#include "base/random.h"

#include <random>

namespace mooring {

uint64_t DrawSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace mooring
