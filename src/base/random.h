// Random numbers as a pure function of (seed, stream, counter): a run can be replayed, and no
// thread or neighbour can shift the sequence. SplitMix64 finaliser (Steele, Lea, Flood 2014)
// applied to a mix of the three.
#ifndef MOORING_BASE_RANDOM_H_
#define MOORING_BASE_RANDOM_H_

#include <cstdint>

namespace mooring {

constexpr uint64_t MixBits(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

constexpr uint64_t RandomBits(uint64_t seed, uint64_t stream, uint64_t counter) {
  return MixBits(MixBits(MixBits(seed) + stream) + counter);
}

// Uniform in [0, 1), 53 random bits.
constexpr double RandomUniform(uint64_t seed, uint64_t stream, uint64_t counter) {
  return static_cast<double>(RandomBits(seed, stream, counter) >> 11) * 0x1.0p-53;
}

// A seed that nobody chose: from the operating system.
uint64_t DrawSeed();

}  // namespace mooring

#endif  // MOORING_BASE_RANDOM_H_
