#include "launch/agent_lies.h"

#include <stdexcept>

#include "base/error.h"
#include "launch/agent_messages.h"
#include "launch/clock_check.h"

namespace taxon::launch {
namespace {

using nlohmann::json;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

template <class Look>
void unless_refused(Look look) {
  try {
    look();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::Rendezvous, "refused as what it is not");
  }
}

bool is_port(int port) { return port >= 1 && port <= 65535; }

}  // namespace

void lie_in_launch_lines(const test::Draw& draw) {
  json lines[] = {
      to_json(AgentJob{.folder = "/runs",
                       .plan = "seed: 1",
                       .words = {"train", AgentJob::kPlanWord, "--out", "run"},
                       .secret = "s",
                       .node = 1,
                       .slots = 2,
                       .first_rank = 2,
                       .world_size = 6,
                       .expendable = {1, 2}}),
      to_json(AgentReport{.problems = {"there is no data"}, .address = "10.0.0.1", .port = 29400}),
      {{"address", "10.0.0.1"}, {"port", 29400}},
      {{"time", 1.8e9}},
      {{"agent", 1}, {"version", "1"}}};
  for (json& line : lines) {
    for (std::uint64_t changes = draw(3); changes > 0; --changes) test::mutate(line, draw);
    unless_refused([&] {
      const AgentJob job = job_from(line);
      require(job.slots >= 1 && job.first_rank >= 0 && job.first_rank <= job.world_size - job.slots,
              "a job of ranks that are not there");
      for (int rank : job.expendable)
        require(rank >= 0 && rank < job.world_size, "a spared rank that is none");
      require(to_json(job_from(to_json(job))) == to_json(job), "a job that changes when it is handed on");
    });
    unless_refused([&] { require(is_port(report_from(line).port), "a report of no port"); });
    unless_refused([&] { require(is_port(go_from(line).port), "no port to go to"); });
    unless_refused([&] { clock_problem(1.8e9, time_from(line), 1.8e9); });
    unless_refused([&] { version_from(line); });
  }
}

}  // namespace taxon::launch
