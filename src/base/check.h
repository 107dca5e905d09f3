#pragma once

#include <sstream>
#include <string>

namespace taxon {

/// Prints the broken invariant with its place and operands, and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& operands);

namespace detail {
template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}
}  // namespace detail

}  // namespace taxon

/// An invariant of Taxon itself, always on. Further arguments are printed when it is broken: TAXON_CHECK(i <
/// n, "i=", i). A user's mistake or a failure of the outside world is an Error, never a check.
#define TAXON_CHECK(condition, ...)                                                \
  do {                                                                             \
    if (!(condition)) [[unlikely]]                                                 \
      ::taxon::check_failed(__FILE__, __LINE__, #condition,                        \
                            ::taxon::detail::join("" __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
