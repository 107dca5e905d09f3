#include "planner/machine.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "launch/core_pressure.h"
#include "launch/core_quota.h"
#include "launch/heap.h"
#include "launch/host.h"
#include "launch/host_memory.h"
#include "launch/interfaces.h"
#include "launch/openblas.h"
#include "model/framework_facts.h"
#include "net/transport_choice.h"
#include "net/ucx/transports.h"
#include "planner/blas_speed.h"
#include "report/summary.h"

namespace taxon::planner {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = 1024.0 * kMiB;

std::string size_text(double bytes) {
  return bytes >= kGiB ? fmt::format("{:.1f} GiB", bytes / kGiB) : fmt::format("{:.0f} MiB", bytes / kMiB);
}

/// The first word of a file, or nothing.
std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

Finding cores() {
  long all = sysconf(_SC_NPROCESSORS_ONLN);
  double quota = launch::core_quota().cores, usable = launch::cores_of_affinity();
  Finding found{"cores", fmt::format("{} usable of {}", usable, all), Verdict::Good, {}};
  if (quota > 0) {
    found.value += fmt::format(", {:.1f} of them by the container's quota", quota);
    usable = std::min(usable, quota);
  }
  if (usable < 2) {
    found.verdict = Verdict::Poor;
    found.advice = "Give the process at least 2 cores (taskset, container limits): workers share this one.";
  }
  return found;
}

Finding memory() {
  const launch::HostMemory here = launch::host_memory();
  const auto available = static_cast<double>(here.available);
  Finding found{
      "memory",
      fmt::format("{}, {} available", size_text(static_cast<double>(here.total)), size_text(available)),
      Verdict::Good,
      {}};
  if (available < kGiB) {
    found.verdict = Verdict::Poor;
    found.advice = "Free some: a worker needs about 0.5 GiB and its model four times.";
  }
  return found;
}

/// Whether others use the cores, or a quota stops whoever uses all that it allows.
Finding load() {
  constexpr double kSeconds = 0.25;
  const auto share = launch::probe_pressure(kSeconds, std::max(1, static_cast<int>(launch::usable_cores())));
  if (!share) return {"load", "not known: this kernel has no /proc/self/task/*/schedstat", Verdict::Good, {}};
  Finding found{"load", launch::describe_pressure(*share), Verdict::Good, {}};
  if (*share >= report::CoreUse::kBusyShare) {
    found.verdict = Verdict::Poor;
    found.advice =
        "Others use the cores, or a quota is used up: speeds that are measured now are not to be trusted, "
        "and "
        "training is slower. See `top`, or wait.";
  }
  return found;
}

Finding blas() {
  launch::CorePressure pressure;
  Blas blas = measure_blas();
  const bool busy = pressure.take_share().value_or(0) >= report::CoreUse::kBusyShare;
  if (blas.library.empty()) return {"BLAS", "none", Verdict::Missing, "apt-get install libopenblas0-openmp"};
  Finding found{
      "BLAS",
      fmt::format("{}, {:.0f} GFLOP/s in float32 ({:.0f} in the median{})",
                  blas.in_libtorch ? fmt::format("{} in {}", blas.build, blas.library) : blas.library,
                  blas.gflops, blas.median_gflops, busy ? "; the cores were busy: not to be trusted" : ""),
      Verdict::Good,
      {}};
  constexpr const char* kChoose =
      "apt-get install libopenblas0-openmp, and choose it by `update-alternatives --set "
      "libopenblas.so.0-$(uname -m)-linux-gnu "
      "/usr/lib/$(uname -m)-linux-gnu/openblas-openmp/libopenblas.so.0` (libblas.so.3 and liblapack.so.3 "
      "alike)";
  if (const std::string_view kernels = launch::better_openblas_kernels(); !kernels.empty()) {
    found.verdict = Verdict::Poor;
    found.advice = fmt::format("Its kernels are older than this processor: export {}={}",
                               launch::kOpenBlasCore, kernels);
    return found;
  }
  // The reference BLAS reaches about 3 per core on any machine, vectorised ones over 20.
  if (blas.gflops < 10.0 * launch::usable_cores()) {
    found.verdict = Verdict::Poor;
    found.advice =
        blas.in_libtorch
            ? "It is a part of libtorch: something else uses the cores, or it does not know this processor."
            : fmt::format("{}; if it is OpenBLAS already, something else uses the cores.", kChoose);
  } else if (blas.own_threads && launch::usable_cores() > 1) {
    found.verdict = Verdict::Poor;
    found.advice = fmt::format(
        "Its threads fight with libtorch's: a worker with two threads computes 1.4x slower. {}.", kChoose);
  }
  return found;
}

/// None in a build without it.
std::vector<Finding> framework() {
  const model::FrameworkFacts facts = model::framework_facts();
  if (facts.version.empty()) return {};
  return {{"libtorch",
           fmt::format("{}, {}, {} instructions", facts.version,
                       facts.onednn.empty() ? "no oneDNN" : fmt::format("oneDNN {}", facts.onednn),
                       facts.instructions.empty() ? "unknown" : facts.instructions),
           Verdict::Good,
           {}}};
}

std::string joined(const std::set<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<Finding> transports() {
  auto found = net::ucx_transports();
  if (found.empty())
    return {{"UCX transports", "none", Verdict::Missing, "apt-get install libucx0; unset UCX_TLS"}};
  std::vector<Finding> result;
  for (const auto& [name, devices] : found)
    result.push_back({"UCX " + name, joined(devices), Verdict::Good, {}});
  const bool shares = found.contains("posix") || found.contains("sysv");
  if (!shares)
    result.push_back({"UCX shared memory", "none", Verdict::Poor,
                      "Workers of one host talk over TCP. Check UCX_TLS and that /dev/shm is mounted."});
  result.push_back({"tensors on host",
                    shares ? "written into place or read there, in shared memory" : "messages",
                    shares ? Verdict::Good : Verdict::Poor,
                    shares ? "" : "Sums and tensor channels copy more than once without shared memory."});
  const bool rdma = std::any_of(found.begin(), found.end(), [](const auto& transport) {
    return transport.first.starts_with("rc_") || transport.first.starts_with("dc_");
  });
  result.push_back({"tensors to hosts", "messages", Verdict::Good, {}});
  result.push_back({"chosen by auto",
                    fmt::format("{} within a host, {} between hosts", shares ? "shared memory" : "TCP",
                                rdma ? "RDMA" : "Taxon's TCP"),
                    Verdict::Good,
                    {}});
  for (const net::TransportChoice& choice : net::transport_choices())
    if (choice.tls == nullptr)  // not UCX's
      result.push_back({choice.name,
                        choice.make ? choice.explanation : fmt::format("none without {}", choice.package),
                        Verdict::Good,
                        {}});
  return result;
}

Finding shared_memory() {
  struct statvfs file_system {};
  if (statvfs("/dev/shm", &file_system) != 0 || access("/dev/shm", W_OK) != 0)
    return {"/dev/shm", "not writable", Verdict::Missing,
            "mount -t tmpfs -o size=50%,mode=1777 tmpfs /dev/shm"};
  double unit = static_cast<double>(file_system.f_frsize);
  double size = unit * static_cast<double>(file_system.f_blocks);
  double free = unit * static_cast<double>(file_system.f_bavail);
  Finding found{"/dev/shm", fmt::format("{}, {} free", size_text(size), size_text(free)), Verdict::Good, {}};
  if (free < 512 * kMiB) {
    found.verdict = Verdict::Poor;
    found.advice =
        "Gradients and weights of local workers live there: mount -o remount,size=2G /dev/shm (docker run "
        "--shm-size=2g), or remove what is left in it.";
  }
  return found;
}

Finding huge_pages() {
  Finding found{"huge pages", launch::huge_pages_mode(), Verdict::Good, {}};
  if (!launch::are_huge_pages_given(found.value)) {
    found.verdict = Verdict::Poor;
    found.advice =
        fmt::format("Steps take some per cent longer without: echo madvise > {}", launch::kHugePagesFile);
  }
  return found;
}

std::string limit_text(rlim_t limit, bool bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return bytes ? size_text(static_cast<double>(limit)) : fmt::format("{}", limit);
}

Finding locked_memory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  Finding found{"memlock", limit_text(limit.rlim_cur, true), Verdict::Good, {}};
  bool rdma = access("/sys/class/infiniband", R_OK) == 0;
  if (!rdma) {
    found.value += ", which only RDMA devices need, and there is none";
  } else if (limit.rlim_cur != RLIM_INFINITY) {
    found.verdict = Verdict::Poor;
    found.advice = "RDMA registers all gradients: ulimit -l unlimited (memlock in /etc/security/limits.conf)";
  }
  return found;
}

Finding open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  Finding found{"open files", limit_text(limit.rlim_cur, false), Verdict::Good, {}};
  if (limit.rlim_cur < 1024) {
    found.verdict = Verdict::Poor;
    found.advice = "ulimit -n 65536: each worker opens several connections to every other";
  }
  return found;
}

Finding clock_source() {
  constexpr int kReads = 20000;
  auto begin = std::chrono::steady_clock::now();
  auto end = begin;
  for (int i = 0; i < kReads; ++i) end = std::chrono::steady_clock::now();
  double nanoseconds = std::chrono::duration<double, std::nano>(end - begin).count() / kReads;
  std::string source = first_word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  Finding found{"clock",
                fmt::format("{}, {:.0f} ns a reading", source.empty() ? "unknown" : source, nanoseconds),
                Verdict::Good,
                {}};
  if (nanoseconds > 500) {
    found.verdict = Verdict::Poor;
    found.advice =
        "A slow clock slows every poll: choose tsc (or the hypervisor's) in the file "
        "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  }
  return found;
}

std::vector<Finding> network() {
  std::vector<Finding> result;
  bool outside = false;
  for (const launch::Interface& interface : launch::network_interfaces()) {
    outside = outside || !interface.loopback;
    std::string speed =
        interface.megabits > 0 ? fmt::format("{} Mbit/s", interface.megabits) : std::string("speed unknown");
    result.push_back({"interface " + interface.name,
                      interface.loopback ? joined(interface.addresses)
                                         : fmt::format("{}, {}", joined(interface.addresses), speed),
                      Verdict::Good,
                      {}});
  }
  if (result.empty())
    return {{"interfaces", "none that is up", Verdict::Missing, "ip link set lo up: workers meet over TCP"}};
  if (!outside)
    result.push_back(
        {"interfaces", "only loopback", Verdict::Poor, "Other hosts can't be reached from here."});
  return result;
}

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::Good:
      return "good";
    case Verdict::Poor:
      return "poor";
    case Verdict::Missing:
      return "missing";
  }
  return "";
}

}  // namespace

std::vector<Finding> examine_machine() {
  std::vector<Finding> all{cores(), load(), memory()};
  for (Finding& finding : framework()) all.push_back(std::move(finding));
  all.push_back(blas());
  for (Finding& finding : transports()) all.push_back(std::move(finding));
  for (const Finding& finding :
       {shared_memory(), huge_pages(), locked_memory(), open_files(), clock_source()})
    all.push_back(finding);
  for (Finding& finding : network()) all.push_back(std::move(finding));
  return all;
}

void print_findings(const std::vector<Finding>& findings, std::ostream& out) {
  for (const Finding& finding : findings) {
    out << fmt::format("{:<8} {:<16} {}\n", word(finding.verdict), finding.subject, finding.value);
    if (!finding.advice.empty()) out << fmt::format("{:>8} {}\n", "->", finding.advice);
  }
}

std::string to_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings)
    list.push_back({{"subject", finding.subject},
                    {"value", finding.value},
                    {"verdict", word(finding.verdict)},
                    {"advice", finding.advice}});
  return nlohmann::ordered_json{{"findings", std::move(list)}}.dump(2) + "\n";
}

}  // namespace taxon::planner
