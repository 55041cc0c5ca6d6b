// One device: its table of kernels and its threads. Made once at start and passed by reference;
// there is no global one.
//
// Thread rule: `pool` serves one thread at a time, the engine's.
#ifndef MOORING_KERNELS_BACKEND_H_
#define MOORING_KERNELS_BACKEND_H_

#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace mooring {

class Backend {
 public:
  // `isa` as in SelectKernels; `thread_count` 0 means every usable core.
  static Result<std::unique_ptr<Backend>> Create(std::string_view isa, int thread_count);

  const Kernels& kernels() const { return *kernels_; }
  ThreadPool& pool() { return pool_; }
  int thread_count() const { return pool_.thread_count(); }

 private:
  Backend(const Kernels* kernels, int thread_count) : kernels_(kernels), pool_(thread_count) {}
  const Kernels* kernels_;
  ThreadPool pool_;
};

}  // namespace mooring

#endif  // MOORING_KERNELS_BACKEND_H_
