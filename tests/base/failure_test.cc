#include "base/failure.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>
#include <stdexcept>

namespace taxon {
namespace {

using testing::ExitedWithCode;

void print(const std::string& line) { fputs(line.c_str(), stderr); }
void print_without_memory(const std::string&) { throw std::bad_alloc(); }

template <class Exception>
[[noreturn]] void raise(const Exception& exception) {
  throw exception;
}
/// Throws where nobody catches anything, as a thread of a library does.
template <class Exception>
[[noreturn]] void end_by(std::terminate_handler handler, const Exception& exception) noexcept {
  std::set_terminate(handler);
  raise(exception);
}

[[noreturn]] void end_with_what_a_limit_leaves(std::size_t bytes) {
  rlimit limit{};  // of all that is mapped, libraries and stacks too
  limit.rlim_cur = limit.rlim_max = bytes;
  setrlimit(RLIMIT_AS, &limit);
  _exit(may_map(bytes) ? 1 : 0);
}

TEST(MayMap, IsNoUnderALimit) {
  constexpr std::size_t kMuch = std::size_t{1} << 30;
  EXPECT_TRUE(may_map(kMuch));
  EXPECT_EXIT(end_with_what_a_limit_leaves(kMuch), ExitedWithCode(0), "");
}

TEST(EndUncaught, LackOfMemoryHasItsExitCode) {
  EXPECT_EXIT(end_by([] { end_uncaught(print); }, std::bad_alloc()), ExitedWithCode(72),
              "resources: memory ran out");
}

TEST(EndUncaught, LackOfMemoryIsSaidWithoutMemory) {
  EXPECT_EXIT(end_by([] { end_uncaught(print_without_memory); }, std::bad_alloc()), ExitedWithCode(72),
              "taxon: resources: memory ran out");
}

TEST(EndUncaught, WhatNobodyExpectsAborts) {
  EXPECT_EXIT(end_by([] { end_uncaught(print); }, std::runtime_error("a surprise")),
              testing::KilledBySignal(SIGABRT), "an exception that nobody expects: a surprise");
}

}  // namespace
}  // namespace taxon
