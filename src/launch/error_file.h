#pragma once

#include <string>

namespace taxon::launch {

/// Tells torchrun why this process failed, in the form of its error files ($TORCHELASTIC_ERROR_FILE), so that
/// it is shown as the root cause. Does nothing when the file cannot be written.
void write_error_file(const std::string& path, const std::string& kind, const std::string& message);

}  // namespace taxon::launch
