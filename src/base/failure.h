#pragma once

#include <cstddef>
#include <exception>
#include <string>

#include "base/error.h"

namespace taxon {

/// Whether the system refused, by this errno, what a process or a user may have only so much of: memory,
/// threads, open files, a file's size. A full disk is not among them.
bool is_exhaustion(int error);
/// Resources where that is so, else `otherwise`.
ErrorKind kind_of(int error, ErrorKind otherwise);

/// Whether this process may map so many more bytes: no where a limit (ulimit -v) leaves less. Takes none of
/// them.
bool may_map(std::size_t bytes);

/// What an exception of the standard library or of another library means: an Error stays what it is; refused
/// memory and what is_exhaustion() says of a std::system_error are Resources, with what to do about it; all
/// else is Internal. For the places where exceptions of every type end.
Error error_from(const std::exception& exception);

/// The end of a program by an exception that nobody catches, in a thread of a library for instance: to be
/// called by its std::terminate_handler. Lack of Resources ends it with that exit code, and all else by
/// abort(), after `say` was given a line. Where no memory is left even for that, standard error gets a line
/// that needs none.
[[noreturn]] void end_uncaught(void (*say)(const std::string& line));

}  // namespace taxon
