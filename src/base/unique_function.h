#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace taxon {

template <class Signature>
class UniqueFunction;

/// A callable that may own move-only state (std::move_only_function is C++23).
template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> && std::is_invocable_r_v<R, F&, Args...>)
      UniqueFunction(F callable)  // NOLINT: converts like std::function
      : target_(std::make_unique<Holder<F>>(std::move(callable))) {}

  explicit operator bool() const { return target_ != nullptr; }
  /// REQUIRES: not empty.
  R operator()(Args... args) const {
    TAXON_CHECK(target_ != nullptr, "an empty function was called");
    return target_->call(std::forward<Args>(args)...);
  }

 private:
  struct Target {
    virtual ~Target() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F>
  struct Holder final : Target {
    explicit Holder(F callable) : callable_(std::move(callable)) {}
    R call(Args... args) override { return callable_(std::forward<Args>(args)...); }
    F callable_;
  };
  std::unique_ptr<Target> target_;
};

}  // namespace taxon
