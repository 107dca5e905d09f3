#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace taxon::test {

/// What an error says; empty if there is none.
inline std::string message_of(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  }
  return "";
}

/// Internal for what is no Error, and if there is none.
inline ErrorKind kind_of(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.kind();
  }
  return ErrorKind::Internal;
}

}  // namespace taxon::test
