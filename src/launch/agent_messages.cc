#include "launch/agent_messages.h"

#include "base/error.h"
#include "control/wire.h"

namespace taxon::launch {
namespace {

using control::integer_at;
using nlohmann::json;

constexpr std::int64_t kLongestDeadlineMs = 1'000'000'000;  // the most that control.deadline_seconds may be

int count_at(const json& object, const char* key, int least = 0) {
  return static_cast<int>(integer_at(object, key, least, AgentJob::kMostRanks));
}

int port_at(const json& object) { return static_cast<int>(integer_at(object, "port", 1, 65535)); }

/// What `read` makes of a line, or Error{Rendezvous}.
template <class Read>
auto understood(Read read) {
  try {
    return read();
  } catch (const json::exception& error) {
    misunderstood(error.what());
  } catch (const control::ProtocolError& error) {
    misunderstood(error.what());
  }
}

}  // namespace

void misunderstood(const std::string& what) {
  throw Error(ErrorKind::Rendezvous, "the launcher and its agent don't understand each other: " + what);
}

json to_json(const AgentJob& job) {
  return {{"folder", job.folder},
          {"plan", job.plan},
          {"words", job.words},
          {"secret", job.secret},
          {"node", job.node},
          {"slots", job.slots},
          {"first_rank", job.first_rank},
          {"world_size", job.world_size},
          {"spared", job.expendable},
          {"deadline_ms", job.deadline_ms}};
}

json to_json(const AgentReport& report) {
  return {{"problems", report.problems}, {"address", report.address}, {"port", report.port}};
}

AgentJob job_from(const json& object) {
  return understood([&] {
    AgentJob job{.folder = object.at("folder"),
                 .plan = object.at("plan"),
                 .words = object.at("words"),
                 .secret = object.at("secret"),
                 .node = count_at(object, "node"),
                 .slots = count_at(object, "slots", 1),
                 .first_rank = count_at(object, "first_rank"),
                 .world_size = count_at(object, "world_size", 1),
                 .expendable = {},
                 .deadline_ms = integer_at(object, "deadline_ms", 1, kLongestDeadlineMs)};
    if (job.world_size < job.first_rank + job.slots) misunderstood("a job of no ranks");
    for (Rank rank : control::ranks_at(object, "spared", job.world_size))
      job.expendable.push_back(rank.value());
    return job;
  });
}

AgentReport report_from(const json& object) {
  return understood([&] {
    return AgentReport{
        .problems = object.at("problems"), .address = object.at("address"), .port = port_at(object)};
  });
}

AgentGo go_from(const json& object) {
  return understood([&] { return AgentGo{.address = object.at("address"), .port = port_at(object)}; });
}

double time_from(const json& object) {
  constexpr double kLatest = 1e12;  // 30,000 years
  return understood([&] {
    const double time = control::seconds_at(object, "time");
    if (time > kLatest) misunderstood("a time that never comes");
    return time;
  });
}

std::string version_from(const json& object) {
  return understood([&]() -> std::string { return object.at("version"); });
}

}  // namespace taxon::launch
