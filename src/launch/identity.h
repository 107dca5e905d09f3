#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/environment.h"

namespace taxon::launch {

/// This process's place in its job, as its launcher told it.
struct Identity {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // 0 of 1 where the launcher does not say
  int local_world_size = 1;
  std::optional<int> node_rank;
  std::string master_addr = "127.0.0.1";
  std::string other_master_addr;  // where that is a name which means nothing here; empty: none
  int master_port = 29500;
  std::string origin = "no launcher";  // "torchrun", "Open MPI", ...
  std::string text;                    // what was recognised, one line for people
};

/// An identity, or one sentence for each thing that is wrong with the environment.
struct Identification {
  Identity identity;
  std::vector<std::string> problems;
};

/// Reads the environment of torchrun, mpirun (Open MPI, MPICH, Intel MPI, MVAPICH2), PMIx, PALS, srun, PET_*
/// and plain RANK/WORLD_SIZE. The innermost launcher wins (srun may start torchrun); launchers of one level
/// that disagree are a problem, and so are N processes that would all be rank 0 of 1. A pure function.
Identification identify(const Environment& environment);

/// Whether a variable tells a process its place: a launcher takes them from the environment of the workers
/// that it starts itself.
bool is_launcher_variable(std::string_view name);

/// "2(x3),1" is {2, 2, 2, 1}. Nothing: malformed.
std::optional<std::vector<int>> slurm_tasks_per_node(std::string_view text);
/// "gnode[10,20-25],b1" is "gnode10". Nothing: malformed.
std::optional<std::string> slurm_first_host(std::string_view text);

}  // namespace taxon::launch
