// How much memory this process takes, as the operating system counts it.
//
// Thread rule: any thread.
#ifndef MOORING_BASE_PROCESS_MEMORY_H_
#define MOORING_BASE_PROCESS_MEMORY_H_

#include <cstdint>

namespace mooring {

// Resident set size in bytes: pages in memory, those of mapped files too. 0 when not known.
uint64_t ResidentBytes();

// Proportional set size in bytes: as above, but a page that n processes share counts as 1/n. Walks
// the whole address space, so it is for measurements. 0 when not known.
uint64_t PssBytes();

// Gives freed memory that the allocator still holds back to the operating system: worth it once,
// after much was allocated for a short time.
void ReturnFreedMemory();

}  // namespace mooring

#endif  // MOORING_BASE_PROCESS_MEMORY_H_
