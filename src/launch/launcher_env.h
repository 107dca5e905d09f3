#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/identity.h"

namespace taxon::launch {

/// What one launcher's variables say. Absent: they don't.
struct LauncherInfo {
  std::string origin;
  std::optional<int> rank, size, local_rank, local_size, node_rank;
  std::string host;        // rank 0's, if the launcher knows it
  std::string other_host;  // where `host` means nothing: an address at which the launcher started the job
  std::optional<int> port;
  std::string port_note;  // where an unusual port comes from
  std::string job;        // names the job, equal on all its ranks
  std::string rank_key, size_key;
  std::string host_advice;  // how to tell all ranks where rank 0 is
};

/// How near to the process a launcher is. A nearer one was started by a farther one.
enum class Level { Outer, Middle, Inner };
/// What a rank without a size means.
enum class Alone { Incomplete, Corroborates };

/// One launcher's variables.
struct Dialect {
  const char* origin;
  Level level;
  Alone alone;
  bool (*spoken)(const Environment&);
  LauncherInfo (*read)(const Environment&, std::vector<std::string>& problems);
};

std::span<const Dialect> dialects();

/// The text of a variable; empty if it is not set.
std::string value_of(const Environment& env, const std::string& key);
/// A whole number >= 0. Something else is a problem.
std::optional<int> number_of(const Environment& env, const std::string& key,
                             std::vector<std::string>& problems);

}  // namespace taxon::launch
