#include "model/torch/birth.h"

#include <torch/version.h>

#include <cstring>

namespace taxon::model {
namespace {

thread_local Births* asked = nullptr;

/// libtorch's allocator with a question before it.
class AskingAllocator final : public c10::Allocator {
 public:
  explicit AskingAllocator(c10::Allocator& usual) : usual_(usual) {}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  c10::DataPtr allocate(std::size_t bytes) override { return born(bytes); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    std::memcpy(target, source, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override { return born(bytes); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return usual_.raw_deleter(); }

 private:
  c10::DataPtr born(std::size_t bytes) const {
    return asked ? asked->birth(bytes, usual_) : usual_.allocate(bytes);
  }

  c10::Allocator& usual_;
};

/// Once per process, which is all that libtorch's table of allocators knows. The allocator is never destroyed:
/// tensors may outlive everything.
void install() {
  static const bool installed = [] {
    c10::SetAllocator(c10::DeviceType::CPU,
                      new AskingAllocator(*c10::GetAllocator(c10::DeviceType::CPU)));
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace

BirthScope::BirthScope(Births& births) : outer_(asked) {
  install();
  asked = &births;
}
BirthScope::~BirthScope() { asked = outer_; }

}  // namespace taxon::model
