#include "model/torch/gradient_placement.h"

#include <torch/version.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace taxon::model {
namespace {

thread_local GradientPlacement* asked = nullptr;

/// Who is in which place. An allocation's context must be its memory, because libtorch lets go of the one and
/// frees by the other where it wants no owner (`raw_allocate`); so places are found by their memory.
class Occupied {
 public:
  void add(std::shared_ptr<PlacedMemory> place) {
    const std::lock_guard lock(mutex_);
    void* const memory = place->memory;
    place->occupied = true;
    places_[memory] = std::move(place);
  }
  /// False: it is no place.
  bool vacate(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(memory);
    if (found == places_.end()) return false;
    found->second->occupied = false;
    places_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::shared_ptr<PlacedMemory>> places_;
};

/// Never destroyed: tensors may outlive everything.
Occupied& occupied() {
  static auto* const all = new Occupied;
  return *all;
}

void vacate(void* memory) { occupied().vacate(memory); }

c10::DeleterFnPtr usual_deleter = nullptr;
void free_raw(void* memory) {
  if (!occupied().vacate(memory)) usual_deleter(memory);
}

/// libtorch's allocator with a question before it.
class AskingAllocator final : public c10::Allocator {
 public:
  explicit AskingAllocator(c10::Allocator& usual) : usual_(usual) { usual_deleter = usual.raw_deleter(); }

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  c10::DataPtr allocate(std::size_t bytes) override { return born(bytes); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    std::memcpy(target, source, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override { return born(bytes); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return usual_deleter ? &free_raw : nullptr; }

 private:
  c10::DataPtr born(std::size_t bytes) const {
    return asked ? asked->birth(bytes, usual_) : usual_.allocate(bytes);
  }

  c10::Allocator& usual_;
};

/// Once per process, which is all that libtorch's table of allocators knows.
void install() {
  static const bool installed = [] {
    c10::SetAllocator(c10::DeviceType::CPU, new AskingAllocator(*c10::GetAllocator(c10::DeviceType::CPU)));
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace

c10::DataPtr occupy(std::shared_ptr<PlacedMemory> place) {
  void* const memory = place->memory;
  occupied().add(std::move(place));
  return {memory, memory, &vacate, c10::Device(c10::DeviceType::CPU)};
}

bool is_placed(const c10::DataPtr& memory) { return memory.get_deleter() == &vacate; }

BirthScope::BirthScope(GradientPlacement& births) : outer_(asked) {
  install();
  asked = &births;
}
BirthScope::~BirthScope() { asked = outer_; }

}  // namespace taxon::model
