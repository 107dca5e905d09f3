#include "launch/launcher_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace taxon::launch {
namespace {

using Complaints = std::vector<std::string>;

bool has(const Environment& env, const char* key) { return env.find(key) != env.end(); }

/// The names under which a launcher of the usual kind tells its ranks who they are. Empty: it doesn't.
struct Names {
  const char* origin;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* node_rank;
  std::array<const char*, 2> job;
  const char* host_advice;
};

LauncherInfo read_names(const Names& names, const Environment& env, Complaints& problems) {
  auto number = [&](const char* key) { return *key == 0 ? std::nullopt : number_of(env, key, problems); };
  LauncherInfo claim;
  claim.origin = names.origin;
  claim.rank = number(names.rank);
  claim.size = number(names.size);
  claim.local_rank = number(names.local_rank);
  claim.local_size = number(names.local_size);
  claim.node_rank = number(names.node_rank);
  for (const char* key : names.job)
    if (claim.job.empty()) claim.job = value_of(env, key);
  claim.rank_key = names.rank;
  claim.size_key = names.size;
  claim.host_advice = names.host_advice;
  return claim;
}

constexpr const char* kSetMasterAddr = "set MASTER_ADDR to rank 0's host on every rank";
constexpr const char* kMpirunAdvice =
    "tell all ranks where rank 0 runs, with Open MPI by: mpirun -x MASTER_ADDR=<first host> ..., with MPICH "
    "and "
    "Intel MPI by: mpirun -genv MASTER_ADDR <first host> ...";

constexpr Names kTorchrun{"torchrun",         "RANK",       "WORLD_SIZE", "LOCAL_RANK",
                          "LOCAL_WORLD_SIZE", "GROUP_RANK", {"", ""},     kSetMasterAddr};
constexpr Names kPlain{"plain RANK/WORLD_SIZE", "RANK",      "WORLD_SIZE", "LOCAL_RANK",
                       "LOCAL_WORLD_SIZE",      "NODE_RANK", {"", ""},     kSetMasterAddr};
constexpr Names kOpenMpi{"Open MPI",
                         "OMPI_COMM_WORLD_RANK",
                         "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                         "",  // OMPI_COMM_WORLD_NODE_RANK is a rank on the node, not the node's
                         {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
                         kMpirunAdvice};
constexpr Names kMvapich{"MVAPICH2",
                         "MV2_COMM_WORLD_RANK",
                         "MV2_COMM_WORLD_SIZE",
                         "MV2_COMM_WORLD_LOCAL_RANK",
                         "MV2_COMM_WORLD_LOCAL_SIZE",
                         "",
                         {"", ""},
                         kMpirunAdvice};
constexpr Names kHydra{"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE",       "MPI_LOCALRANKID",
                       "MPI_LOCALNRANKS",    "",         {"PMI_PORT", ""}, kMpirunAdvice};
constexpr Names kPals{"PALS",           "PALS_RANKID", "PMI_SIZE",        "PALS_LOCAL_RANKID",
                      "PMI_LOCAL_SIZE", "PALS_NODEID", {"PALS_APID", ""}, kSetMasterAddr};
constexpr Names kPmix{"PMIx", "PMIX_RANK", "", "", "", "", {"PMIX_NAMESPACE", ""}, kSetMasterAddr};

template <const Names& names>
LauncherInfo read_as(const Environment& env, Complaints& problems) {
  return read_names(names, env, problems);
}
template <const Names& names>
bool speaks(const Environment& env) {
  return has(env, names.rank) || has(env, names.size);
}

bool is_torchrun(const Environment& env) { return has(env, "TORCHELASTIC_RUN_ID"); }
bool is_pod(const Environment& env) {
  return has(env, "PET_NNODES") || has(env, "PET_NODE_RANK") || has(env, "PET_NPROC_PER_NODE");
}

LauncherInfo read_torchrun(const Environment& env, Complaints& problems) {
  LauncherInfo claim = read_names(kTorchrun, env, problems);
  if (value_of(env, "TORCHELASTIC_USE_AGENT_STORE") != "True") return claim;
  // The agent's own store listens at MASTER_PORT as long as the job runs.
  if (auto port = number_of(env, "MASTER_PORT", problems)) {
    claim.port = *port < 65535 ? *port + 1 : *port - 1;
    claim.port_note = fmt::format("beside torchrun's own store at {}", *port);
  }
  return claim;
}

// Kubeflow gives a pod torchrun's arguments as PET_* and, in its first version, RANK and WORLD_SIZE too,
// which then count pods, not processes.
bool speaks_plain(const Environment& env) {
  if (is_torchrun(env)) return false;
  if (is_pod(env) && !has(env, "LOCAL_RANK")) return false;
  return speaks<kPlain>(env);
}

std::optional<int> fixed_nodes(const Environment& env, Complaints& problems) {
  std::string nodes = value_of(env, "PET_NNODES");
  auto colon = nodes.find(':');
  if (colon == std::string::npos) return has(env, "PET_NNODES") ? number_of(env, "PET_NNODES", problems) : 1;
  std::string least = nodes.substr(0, colon), most = nodes.substr(colon + 1);
  if (least == most) return number_of({{"PET_NNODES", least}}, "PET_NNODES", problems);
  problems.push_back(fmt::format(
      "PET_NNODES={} asks for a job that grows and shrinks: give a fixed number of nodes", nodes));
  return {};
}

LauncherInfo read_pod(const Environment& env, Complaints& problems) {
  LauncherInfo claim;
  claim.origin = "Kubeflow (PET_*)";
  claim.rank_key = "PET_NODE_RANK";
  claim.size_key = "PET_NNODES";
  claim.host_advice = "set PET_MASTER_ADDR or MASTER_ADDR to the host of node 0";
  claim.size = fixed_nodes(env, problems);
  claim.rank = has(env, "PET_NODE_RANK") ? number_of(env, "PET_NODE_RANK", problems) : std::nullopt;
  if (!claim.rank && has(env, "RANK")) claim.rank = number_of(env, "RANK", problems);
  if (!claim.rank && claim.size == 1) claim.rank = 0;
  claim.node_rank = claim.rank;
  claim.local_rank = 0;
  claim.local_size = 1;
  if (std::string each = value_of(env, "PET_NPROC_PER_NODE"); !each.empty() && each != "1")
    problems.push_back(
        fmt::format("PET_NPROC_PER_NODE={} asks torchrun for several processes on this host: start "
                    "them with: torchrun --no_python taxon train ...",
                    each));
  claim.host = value_of(env, "PET_MASTER_ADDR");
  if (has(env, "PET_MASTER_PORT")) claim.port = number_of(env, "PET_MASTER_PORT", problems);
  std::string endpoint = value_of(env, "PET_RDZV_ENDPOINT");
  if (claim.host.empty() && !endpoint.empty()) {
    const auto [host, port] = host_and_port(endpoint);
    claim.host = host;
    if (!port.empty() && !claim.port)
      claim.port = number_of({{"PET_RDZV_ENDPOINT", port}}, "PET_RDZV_ENDPOINT", problems);
  }
  claim.job = value_of(env, "PET_RDZV_ID");
  return claim;
}

// Inside of salloc and of a batch script the variables of a step exist too, but nobody started ranks: those
// steps have the reserved numbers from 0xfffffffa on, or no number.
bool is_slurm_step(const Environment& env) {
  std::string id = value_of(env, "SLURM_STEP_ID");
  unsigned long number = 0;
  auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  return !id.empty() && error == std::errc() && end == id.data() + id.size() && number < 0xfffffffaUL;
}

std::optional<int> slurm_size(const Environment& env, const std::vector<int>& per_node,
                              Complaints& problems) {
  for (const char* key : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
    if (has(env, key)) return number_of(env, key, problems);
  if (!per_node.empty()) return std::accumulate(per_node.begin(), per_node.end(), 0);
  if (!has(env, "SLURM_NNODES") || !has(env, "SLURM_NTASKS_PER_NODE")) return {};
  auto nodes = number_of(env, "SLURM_NNODES", problems);
  auto tasks = number_of(env, "SLURM_NTASKS_PER_NODE", problems);
  return nodes && tasks ? std::optional(*nodes * *tasks) : std::nullopt;
}

/// The first of `keys` that is set, parsed by `parse`; what it can't read is a problem.
template <class Parse>
auto first_readable(const Environment& env, std::array<const char*, 2> keys, Parse parse,
                    Complaints& problems) {
  decltype(parse("")) result;
  for (const char* key : keys) {
    std::string text = value_of(env, key);
    if (text.empty()) continue;
    result = parse(text);
    if (!result) problems.push_back(fmt::format("{}={} is not in Slurm's form", key, text));
    break;
  }
  return result;
}

LauncherInfo read_slurm(const Environment& env, Complaints& problems) {
  LauncherInfo claim;
  claim.origin = "Slurm";
  claim.rank_key = "SLURM_PROCID";
  claim.size_key = "SLURM_NTASKS";
  claim.host_advice = kSetMasterAddr;
  auto per_node = first_readable(env, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"},
                                 slurm_tasks_per_node, problems)
                      .value_or(std::vector<int>());
  auto number = [&](const char* key) { return has(env, key) ? number_of(env, key, problems) : std::nullopt; };
  claim.rank = number("SLURM_PROCID");
  claim.size = slurm_size(env, per_node, problems);
  claim.local_rank = number("SLURM_LOCALID");
  claim.node_rank = number("SLURM_NODEID");
  if (claim.node_rank && static_cast<std::size_t>(*claim.node_rank) < per_node.size())
    claim.local_size = per_node[static_cast<std::size_t>(*claim.node_rank)];
  claim.host = first_readable(env, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}, slurm_first_host, problems)
                   .value_or("");
  claim.other_host = value_of(env, "SLURM_LAUNCH_NODE_IPADDR");
  claim.job = value_of(env, "SLURM_JOB_ID") + "." + value_of(env, "SLURM_STEP_ID");
  return claim;
}

bool is_slurm(const Environment& env) { return is_slurm_step(env); }

constexpr Dialect kDialects[] = {
    {"torchrun", Level::Inner, Alone::Incomplete, is_torchrun, read_torchrun},
    {"plain RANK/WORLD_SIZE", Level::Middle, Alone::Incomplete, speaks_plain, read_as<kPlain>},
    {"Kubeflow (PET_*)", Level::Middle, Alone::Incomplete, is_pod, read_pod},
    {"Open MPI", Level::Middle, Alone::Incomplete, speaks<kOpenMpi>, read_as<kOpenMpi>},
    {"MVAPICH2", Level::Middle, Alone::Incomplete, speaks<kMvapich>, read_as<kMvapich>},
    {"PALS", Level::Middle, Alone::Corroborates, [](const Environment& env) { return has(env, kPals.rank); },
     read_as<kPals>},
    {"MPICH or Intel MPI", Level::Middle, Alone::Incomplete, speaks<kHydra>, read_as<kHydra>},
    {"PMIx", Level::Middle, Alone::Corroborates, [](const Environment& env) { return has(env, kPmix.rank); },
     read_as<kPmix>},
    {"Slurm", Level::Outer, Alone::Incomplete, is_slurm, read_slurm},
};

}  // namespace

std::span<const Dialect> dialects() { return kDialects; }

std::string value_of(const Environment& env, const std::string& key) {
  auto found = env.find(key);
  return found == env.end() ? "" : found->second;
}

std::optional<int> number_of(const Environment& env, const std::string& key,
                             std::vector<std::string>& problems) {
  auto found = env.find(key);
  if (found == env.end()) return {};
  const std::string& text = found->second;
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size() && value >= 0) return value;
  std::string problem = fmt::format("{}='{}' is not a whole number", key, text);
  if (std::find(problems.begin(), problems.end(), problem) == problems.end()) problems.push_back(problem);
  return {};
}

std::optional<std::vector<int>> slurm_tasks_per_node(std::string_view text) {
  std::vector<int> counts;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int count = 0, times = 1;
    auto number = std::from_chars(at, end, count);
    if (number.ec != std::errc() || count < 0) return {};
    at = number.ptr;
    if (end - at >= 2 && at[0] == '(' && at[1] == 'x') {
      auto repeat = std::from_chars(at + 2, end, times);
      if (repeat.ec != std::errc() || times < 1 || times > 1'000'000 || repeat.ptr == end ||
          *repeat.ptr != ')')
        return {};
      at = repeat.ptr + 1;
    }
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
    if (at == end) return counts;
    if (*at++ != ',') return {};
  }
}

std::optional<std::string> slurm_first_host(std::string_view text) {
  std::string host;
  while (!text.empty() && text.front() != ',') {
    if (text.front() != '[') {
      host += text.front();
      text.remove_prefix(1);
      continue;
    }
    auto close = text.find(']');
    if (close == std::string_view::npos) return {};
    std::string_view inside = text.substr(1, close - 1);
    std::string_view first = inside.substr(0, inside.find_first_of(",-"));
    if (first.empty()) return {};
    host += first;
    text.remove_prefix(close + 1);
  }
  if (host.empty() || host.find(']') != std::string::npos) return {};
  return host;
}

bool is_launcher_variable(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {"OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "PMI_",        "PMIX_",
                                            "MPI_LOCAL",        "PALS_",           "SLURM_STEP_", "PET_"};
  constexpr std::string_view kNames[] = {"RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_RANK",
                                         "GROUP_RANK",
                                         "NODE_RANK",
                                         "LOCAL_WORLD_SIZE",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "TORCHELASTIC_RUN_ID",
                                         "SLURM_PROCID",
                                         "SLURM_LOCALID",
                                         "SLURM_NODEID",
                                         "TORCHELASTIC_USE_AGENT_STORE"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace taxon::launch
