#pragma once

#include <string>

namespace taxon::data {

/// Throws Error{Data}: "PATH: cannot be read: REASON".
[[noreturn]] void fail_read(const std::string& path, const std::string& reason);
/// Throws Error{Output}: "PATH: cannot be written: REASON".
[[noreturn]] void fail_write(const std::string& path, const std::string& reason);
/// Throws Error{Data} of a file that was read and is not what it should be: "PATH: WHY".
[[noreturn]] void fail_contents(const std::string& path, const std::string& why);

}  // namespace taxon::data
