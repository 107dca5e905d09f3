#include "planner/simulation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "base/version.h"
#include "job/outputs.h"
#include "launch/host.h"
#include "report/summary.h"
#include "report/trace.h"
#include "train/report/trace.h"
#include "train/units.h"

namespace taxon::planner {
namespace {

using Json = nlohmann::ordered_json;
using Kind = sim::PathSegment::Kind;

constexpr std::size_t kShownLinks = 12, kShownPhases = 9;

std::string milliseconds(double seconds) { return format_milliseconds(seconds) + " ms"; }

double median_seconds(const SimulationResult& result) { return to_seconds(result.median); }

/// Mean over ranks and counted steps.
double mean(const SimulationResult& result, Duration train::StepReport::*member) {
  double sum = 0;
  std::size_t count = 0;
  for (const auto& steps : result.by_rank)
    for (std::size_t i = result.warm_up; i < steps.size(); ++i, ++count) sum += to_seconds(steps[i].*member);
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

bool is_sum(const std::string& kernel) { return kernel == "sum" || kernel == "copy"; }

/// A run of stretches of one kind of cause.
struct Phase {
  std::string text;
  std::string kind;  // the same whatever rank and bucket it was on
  double seconds = 0;
  bool is_exchange = false;
  std::map<std::uint32_t, double> units;  // seconds of each on the way
};

/// What messages and the sums between them were about: the units that took most.
std::string exchanged(const Phase& phase, const plan::Plan& plan) {
  auto most = std::max_element(phase.units.begin(), phase.units.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == phase.units.end()) return "sums";
  std::string name = train::name_unit(most->first, plan);
  if (name.empty()) name = fmt::format("unit {}", most->first);
  if (phase.units.size() == 1) return "messages of " + name;
  return fmt::format("messages of {} units, most of {}", phase.units.size(), name);
}

std::vector<Phase> phases(const SimulationResult& result) {
  std::vector<Phase> list;
  for (const sim::PathSegment& segment : result.path) {
    const bool message = segment.kind == Kind::Link || segment.kind == Kind::Latency;
    const bool kernel =
        segment.kind == Kind::Compute || segment.kind == Kind::Exchange || segment.kind == Kind::Data;
    const std::string name = kernel ? result.timeline->name(segment.name) : "";
    const bool exchange = message || (segment.kind == Kind::Exchange && is_sum(name));
    std::string text;
    if (!exchange) text = kernel ? fmt::format("{} on rank {}", name, segment.rank) : "waiting";
    if (list.empty() || list.back().is_exchange != exchange || list.back().text != text)
      list.push_back({text, exchange ? "messages and their sums" : kernel ? name : text, 0, exchange, {}});
    list.back().seconds += to_seconds(segment.time());
    if (message) list.back().units[segment.unit] += to_seconds(segment.time());
  }
  for (Phase& phase : list)
    if (phase.is_exchange) phase.text = exchanged(phase, result.info.plan);
  return list;
}

/// All stretches of a kind together, the longest first: what a long chain was made of.
std::vector<Phase> kinds_of(const std::vector<Phase>& all) {
  std::map<std::string, std::pair<Phase, int>> kinds;
  for (const Phase& phase : all) {
    auto& [sum, count] = kinds[phase.kind];
    sum.seconds += phase.seconds;
    sum.text =
        fmt::format("{} ({})", phase.kind, ++count == 1 ? "one piece" : fmt::format("{} pieces", count));
  }
  std::vector<Phase> list;
  for (auto& [kind, sum] : kinds) list.push_back(std::move(sum.first));
  std::stable_sort(list.begin(), list.end(),
                   [](const Phase& a, const Phase& b) { return a.seconds > b.seconds; });
  return list;
}

std::string path_text(const SimulationResult& result) {
  if (result.path.empty()) return "critical path: not followed, since a step has too many messages\n";
  const double total = to_seconds(result.steps[result.followed].step_time);
  std::vector<Phase> shown = phases(result);
  std::string how = "in its order";
  if (shown.size() > kShownPhases) {
    shown = kinds_of(shown);
    how = "by kinds";
  }
  std::string text =
      fmt::format("critical path of step {} ({}), {}:\n", result.followed + 1, milliseconds(total), how);
  for (const Phase& phase : shown)
    text += fmt::format("  {:>12} {:>5.1f} %  {}\n", milliseconds(phase.seconds),
                        total > 0 ? phase.seconds / total * 100 : 0, phase.text);
  return text;
}

double busy_share(const sim::LinkUse& link, const SimulationResult& result) {
  const double time = to_seconds(result.counted_time);
  return time > 0 ? to_seconds(link.busy) / time : 0;
}

double per_step(std::uint64_t count, const SimulationResult& result) {
  return result.counted > 0 ? static_cast<double>(count) / static_cast<double>(result.counted) : 0;
}

std::string links_text(const SimulationResult& result) {
  if (result.links.empty()) return "links: their use is known where four steps or more are simulated\n";
  std::vector<const sim::LinkUse*> order;
  for (const sim::LinkUse& link : result.links) order.push_back(&link);
  std::stable_sort(order.begin(), order.end(),
                   [](const sim::LinkUse* a, const sim::LinkUse* b) { return a->busy > b->busy; });
  std::string text = "links, per step:\n";
  for (std::size_t i = 0; i < std::min(order.size(), kShownLinks); ++i)
    text += fmt::format("  {:<24} {:>12} in {:>8.0f} messages, busy {:>5.1f} %\n", order[i]->name,
                        format_bytes(per_step(order[i]->bytes, result)), per_step(order[i]->messages, result),
                        busy_share(*order[i], result) * 100);
  if (order.size() > kShownLinks)
    text += fmt::format("  and {} more, none of them busier than {:.1f} %\n", order.size() - kShownLinks,
                        busy_share(*order[kShownLinks], result) * 100);
  return text;
}

Json path_json(const SimulationResult& result) {
  Json list = Json::array();
  for (const Phase& phase : phases(result))
    list.push_back({{"what", phase.text}, {"seconds", phase.seconds}});
  return list;
}

}  // namespace

Breakdown breakdown(const SimulationResult& result) {
  Breakdown sums;
  for (const sim::PathSegment& segment : result.path) {
    const double seconds = to_seconds(segment.time());
    switch (segment.kind) {
      case Kind::Compute:
        sums.compute += seconds;
        break;
      case Kind::Exchange:
        sums.encode += seconds;
        break;
      case Kind::Link:
        sums.wire += seconds;
        break;
      case Kind::Latency:
        sums.latency += seconds;
        break;
      case Kind::Data:
      case Kind::Wait:
        sums.wait += seconds;
        break;
    }
  }
  sums.exposed = mean(result, &train::StepReport::exposed);
  sums.data_wait = mean(result, &train::StepReport::data_wait);
  return sums;
}

std::string to_text(const SimulationInput& input, const SimulationResult& result) {
  const double step = median_seconds(result);
  std::string text =
      fmt::format("{}: {} parameters on {} ranks of {}, simulated ({})\n", input.plan.name,
                  result.info.parameters, input.ranks, input.cluster.name, input.fidelity->name);
  text += fmt::format("costs: {}\n", result.costs);
  for (const std::string& notice : result.notices) text += notice + "\n";
  const std::vector<plan::BucketPlan>& buckets = result.info.plan.resolved.buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b)
    for (const std::string& reason : buckets[b].reasons) text += fmt::format("bucket {}: {}\n", b, reason);
  text += fmt::format("step: {} (median of {} after {} to warm up)", milliseconds(step),
                      result.steps.size() - result.warm_up, result.warm_up);
  if (result.samples_per_second > 0) text += fmt::format(", {:.0f} samples/s", result.samples_per_second);
  text += "\n";
  if (!result.outcome.staleness.empty())
    text +=
        fmt::format("  staleness of what servers took: mean {:.2f}, at most {} updates\n",
                    report::mean_staleness(result.outcome.staleness), result.outcome.staleness.size() - 1);
  const Breakdown parts = breakdown(result);
  if (!result.path.empty())
    text += fmt::format("  of it compute {}, encode {}, wire {}, latency {}, wait {}\n",
                        milliseconds(parts.compute), milliseconds(parts.encode), milliseconds(parts.wire),
                        milliseconds(parts.latency), milliseconds(parts.wait));
  text += fmt::format("  exposed communication {}, wait for data {} (means over ranks)\n",
                      milliseconds(parts.exposed), milliseconds(parts.data_wait));
  for (const report::CodecUse& use : job::codec_uses(result.outcome))
    text += fmt::format("  {}\n", report::describe(use));
  text += fmt::format("memory of a rank's weights, gradients and optimiser state: {}\n",
                      format_bytes(static_cast<double>(result.info.arenas.total())));
  if (input.fidelity->world == sim::Fidelity::Exact)
    text += fmt::format("parameters after {} steps: {:016x}\n", result.outcome.steps,
                        result.outcome.parameter_hash);
  return text + links_text(result) + path_text(result);
}

std::string to_json(const SimulationInput& input, const SimulationResult& result) {
  Json all = Json::array();
  for (const train::StepReport& step : result.steps) all.push_back(to_seconds(step.step_time));
  const Breakdown parts = breakdown(result);
  Json links = Json::array();
  for (const sim::LinkUse& link : result.links)
    links.push_back({{"name", link.name},
                     {"bytes_per_step", per_step(link.bytes, result)},
                     {"messages_per_step", per_step(link.messages, result)},
                     {"busy", busy_share(link, result)}});
  Json json = {
      {"name", input.plan.name},
      {"version", version_number()},
      {"cluster", input.cluster.name},
      {"workers", input.ranks},
      {"fidelity", std::string(input.fidelity->name)},
      {"costs", result.costs},
      {"seed", input.plan.seed},
      {"parameters", result.info.parameters},
      {"step_seconds", {{"median", median_seconds(result)}, {"warm_up", result.warm_up}, {"all", all}}},
      {"samples_per_second", result.samples_per_second},
      {"breakdown_seconds",
       {{"compute", parts.compute},
        {"encode", parts.encode},
        {"wire", parts.wire},
        {"latency", parts.latency},
        {"wait", parts.wait},
        {"exposed_communication", parts.exposed},
        {"data_wait", parts.data_wait}}},
      {"links", std::move(links)},
      {"critical_path_of_step", result.path.empty() ? Json() : Json(result.followed + 1)},
      {"critical_path", path_json(result)},
      {"bytes_sent_per_step", result.outcome.bytes_sent_per_step},
      {"arena_bytes", result.info.arenas.total()},
      {"peak_rss_bytes", launch::peak_rss_bytes()},
      {"messages", result.report.messages},
      {"events", result.report.events},
      {"run_seconds", to_seconds(result.report.time)},
  };
  json["notices"] = result.notices;
  json["buckets"] = Json::array();
  for (const plan::BucketPlan& bucket : result.info.plan.resolved.buckets) {
    json["buckets"].push_back({{"bytes", bucket.bytes}, {"collectives", bucket.collectives}});
    if (!bucket.reasons.empty()) json["buckets"].back()["reasons"] = bucket.reasons;
  }
  if (!result.outcome.codecs.empty())
    json["codecs"] = Json::parse(report::codecs_json(job::codec_uses(result.outcome)));
  if (!result.outcome.staleness.empty())
    json["staleness"] = {{"mean", report::mean_staleness(result.outcome.staleness)},
                         {"histogram", result.outcome.staleness}};
  if (input.fidelity->world == sim::Fidelity::Exact) {
    json["parameter_hash"] = fmt::format("{:016x}", result.outcome.parameter_hash);
    json["train_loss"] = result.outcome.train_loss;
  }
  return json.dump(2) + "\n";
}

std::string trace_of(const SimulationResult& result) {
  std::vector<std::vector<report::TraceSpan>> ranks;
  for (const auto& spans : result.spans) {
    ranks.emplace_back();
    for (auto& span : train::unpack_spans(train::pack_spans(spans, Duration(0))))
      ranks.back().push_back({span.track, span.name, span.unit, span.bytes, span.begin_us, span.duration_us});
  }
  const plan::Plan& plan = result.info.plan;
  std::vector<std::string> names;
  for (std::size_t b = 0; b < plan.resolved.buckets.size(); ++b)
    names.push_back(train::name_unit(static_cast<std::int64_t>(b), plan));
  return report::chrome_trace(ranks, names);
}

}  // namespace taxon::planner
