#pragma once

#include <string>

namespace taxon::data {

/// Removes from `folder` and the folders in it what killed processes were writing: files of
/// FileStorage::write_atomic()'s own naming whose writer, on whatever host, is dead. Those of living ones
/// stay, and so does everything else. Returns how many there were. Nothing is thrown: what can't be removed
/// stays.
int remove_abandoned_files(const std::string& folder);

}  // namespace taxon::data
