#pragma once

#include <exception>
#include <string>

namespace taxon::model {

/// Why the framework failed, in one line: without its C++ frames, and of a TorchScript module's traceback the
/// error and the line of the module that raised it.
std::string reason_of(const std::exception& error);

}  // namespace taxon::model
