// A file descriptor that is closed with its owner.
//
// Thread rule: one thread.
#ifndef MOORING_BASE_OWNED_DESCRIPTOR_H_
#define MOORING_BASE_OWNED_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace mooring {

class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  explicit OwnedDescriptor(int descriptor) : descriptor_(descriptor) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    if (this != &other) {
      (void)Close();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
  ~OwnedDescriptor() { (void)Close(); }

  bool ok() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  // 0, or -1 with errno: what close(2) said.
  int Close() {
    const int descriptor = std::exchange(descriptor_, -1);
    return descriptor < 0 ? 0 : ::close(descriptor);
  }

 private:
  int descriptor_ = -1;
};

}  // namespace mooring

#endif  // MOORING_BASE_OWNED_DESCRIPTOR_H_
