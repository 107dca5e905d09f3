#pragma once

#include <exception>

#include "base/error.h"

namespace taxon {

/// Whether the system refused, by this errno, what a process or a user may have only so much of: memory,
/// threads, open files, a file's size. A full disk is not among them.
bool is_exhaustion(int error);
/// Resources where that is so, else `otherwise`.
ErrorKind kind_of(int error, ErrorKind otherwise);

/// What an exception of the standard library or of another library means: an Error stays what it is; refused
/// memory and what is_exhaustion() says of a std::system_error are Resources, with what to do about it; all
/// else is Internal. For the places where exceptions of every type end.
Error error_from(const std::exception& exception);

}  // namespace taxon
