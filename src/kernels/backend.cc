#include "kernels/backend.h"

#include "kernels/select.h"

namespace mooring {

Result<std::unique_ptr<Backend>> Backend::Create(std::string_view isa, int thread_count) {
  MOORING_ASSIGN_OR_RETURN(const Kernels* kernels, SelectKernels(isa));
  if (thread_count <= 0) thread_count = UsableCoreCount();
  return std::unique_ptr<Backend>(new Backend(kernels, thread_count));
}

}  // namespace mooring
