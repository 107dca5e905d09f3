#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace taxon::launch {

// `taxon launch` runs `taxon agent` on every host, over ssh, and they talk in lines of JSON over its standard
// input and output: what is handed on, the job's secret too, is on no command line.
//   agent    {"agent": 1, "version"}
//   launcher the job: AgentJob
//   agent    {"time"}, at once; then what it found: AgentReport
//   launcher {"go": {"address", "port"}}
//   launcher {"signal": n} for its ranks; {"end": why} when another host's have failed; {"left": who} when
//   another host's were stopped, which ranks hear that have not met; or the end of the input
// From "go" on the output is the ranks' own.

/// What one host is to do.
struct AgentJob {
  std::string folder;              // where its ranks run
  std::string plan;                // in YAML
  std::vector<std::string> words;  // of `taxon train`; kPlanWord is where the recipe goes
  std::string secret;
  int node = 0, slots = 1, first_rank = 0, world_size = 1;
  std::vector<int> expendable;         // ranks that the others do without
  std::int64_t deadline_ms = 600'000;  // LocalLaunch::deadline

  static constexpr const char* kPlanWord = "\x01plan";
  static constexpr int kMostRanks = 1 << 24;
};

struct AgentReport {
  std::vector<std::string> problems;
  std::string address;  // at which the launcher reached this host; empty: not by ssh
  int port = 0;         // a free one, kept for the job
};

struct AgentGo {
  std::string address;  // rank 0's
  int port = 0;
};

nlohmann::json to_json(const AgentJob& job);
nlohmann::json to_json(const AgentReport& report);
/// Throw Error{Rendezvous} for what is not of this form: an outsider may have written it.
AgentJob job_from(const nlohmann::json& json);
AgentReport report_from(const nlohmann::json& json);
AgentGo go_from(const nlohmann::json& json);
/// Seconds since 1970.
double time_from(const nlohmann::json& json);
std::string version_from(const nlohmann::json& json);
/// That Error.
[[noreturn]] void misunderstood(const std::string& what);

}  // namespace taxon::launch
