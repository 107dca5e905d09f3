#include "report/run_reading.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace taxon::report {
namespace {

using ParsedJson = nlohmann::json;

ParsedJson parse(const std::string& text, const std::string& origin) {
  try {
    return ParsedJson::parse(text);
  } catch (const ParsedJson::exception& error) {
    throw Error(ErrorKind::Data, fmt::format("{} is damaged: {}", origin, error.what()));
  }
}

/// NaN where there is no such number.
double number(const ParsedJson& json, const std::string& key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return found->get<double>();
}

ParsedJson section(const ParsedJson& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : ParsedJson::object();
}

/// Of the samples that the run was evaluated on: the key with a split between these.
std::string evaluated_key(const ParsedJson& json, const std::string& before, const std::string& after) {
  for (const char* split : {"test", "validation"})
    if (std::string key = before + split + after; json.contains(key)) return key;
  return {};
}

/// Of runs from before there were several: accuracy.
ScoreKind score_kind(const ParsedJson& json) {
  ScoreKind kind;
  if (!json.contains("name")) return kind;
  kind.name = json.value("name", kind.name);
  if (json.value("unit", "share") != "share") kind.unit = ScoreKind::Unit::Number;
  if (json.value("better", "more") != "more") kind.better = ScoreKind::Better::Less;
  return kind;
}

std::optional<Staleness> staleness(const ParsedJson& json) {
  if (!json.contains("staleness")) return {};
  const ParsedJson found = section(json, "staleness");
  Staleness staleness{number(found, "mean"), number(found, "max"), {}};
  for (const ParsedJson& count : found.value("histogram", ParsedJson::array()))
    if (count.is_number()) staleness.histogram.push_back(count.get<double>());
  return staleness;
}

std::vector<CodecUse> codecs(const ParsedJson& json) {
  std::vector<CodecUse> uses;
  for (const ParsedJson& use : json.value("codecs", ParsedJson::array()))
    uses.push_back({use.value("level", 0), use.value("codec", ""), number(use, "dense_bytes_per_step"),
                    number(use, "sent_bytes_per_step"), number(use, "encode_ms"), number(use, "decode_ms")});
  return uses;
}

/// A bucket's number from its name in a trace; other units are numbers there.
std::int64_t unit_of(const ParsedJson& event) {
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->contains("unit")) return -1;
  const ParsedJson& unit = arguments->at("unit");
  if (unit.is_number_integer()) return unit.get<std::int64_t>();
  constexpr std::string_view kBucket = "bucket ";
  const std::string name = unit.get<std::string>();
  return name.starts_with(kBucket) ? std::strtoll(name.c_str() + kBucket.size(), nullptr, 10) : -1;
}

}  // namespace

FinishedRun read_summary(const std::string& text, const std::string& origin) {
  const ParsedJson json = parse(text, origin);
  if (!json.is_object()) throw Error(ErrorKind::Data, origin + " is damaged: it is no object");
  try {
    FinishedRun finished;
    SystemRun& run = finished.run;
    run.seed = json.value("seed", std::uint64_t{0});
    finished.score = score_kind(section(json, "metric"));
    run.score = number(json, evaluated_key(json, "", "_" + finished.score.name));
    run.loss = number(json, evaluated_key(json, "", "_loss"));
    run.samples_per_second = number(json, "samples_per_second");
    run.seconds_per_step = number(section(json, "step_ms"), "p50") / 1e3;
    run.bytes_per_step = number(json, "bytes_sent_per_step");
    run.compute_seconds = number(json, "compute_ms") / 1e3;
    run.exposed_seconds = number(json, "exposed_communication_ms") / 1e3;
    run.data_seconds = number(json, "data_wait_ms") / 1e3;
    run.codecs = worth_of(codecs(json));
    run.staleness = staleness(json);
    finished.interrupted = json.value("interrupted", false);
    finished.world_size = json.value("world_size", 0);
    finished.parameters = json.value("parameters", std::int64_t{0});
    finished.transport = json.value("transport", "");
    finished.lost = json.value("lost_ranks", std::vector<int>());
    return finished;
  } catch (const ParsedJson::exception& error) {
    throw Error(ErrorKind::Data, fmt::format("{} is damaged: {}", origin, error.what()));
  }
}

std::vector<CurvePoint> read_curve(const std::string& lines, const std::string& origin,
                                   const ScoreKind& score) {
  std::istringstream stream(lines);
  std::map<double, CurvePoint> by_step;
  for (std::string line; std::getline(stream, line);) {
    const ParsedJson json = parse(line, origin);
    const std::string scored = evaluated_key(json, score.name + "/", "");
    if (scored.empty()) continue;
    by_step[number(json, "step")] = {number(json, "seconds"), number(json, "samples"),
                                     number(json, "bytes_sent"),
                                     number(json, evaluated_key(json, "loss/", "")), number(json, scored)};
  }
  std::vector<CurvePoint> curve;
  for (const auto& [step, point] : by_step) curve.push_back(point);
  return curve;
}

std::vector<std::vector<TraceSpan>> read_trace(const std::string& text, const std::string& origin) {
  const ParsedJson json = parse(text, origin);
  std::vector<std::vector<TraceSpan>> ranks;
  std::map<std::pair<std::size_t, int>, std::string> tracks;
  try {
    for (const ParsedJson& event : json.at("traceEvents")) {
      const auto rank = event.at("pid").get<std::size_t>();
      const int thread = event.at("tid").get<int>();
      if (event.at("ph") == "M") {
        if (event.at("name") == "thread_name") tracks[{rank, thread}] = event.at("args").at("name");
        continue;
      }
      constexpr std::size_t kMostRanks = 1 << 20;  // beyond it the file is damaged
      if (event.at("ph") != "X" || rank >= kMostRanks) continue;
      if (ranks.size() <= rank) ranks.resize(rank + 1);
      const std::int64_t unit = unit_of(event);
      ranks[rank].push_back({.track = tracks[{rank, thread}],
                             .name = event.at("name"),
                             .unit = unit,
                             .begin_us = event.at("ts"),
                             .duration_us = event.at("dur")});
    }
  } catch (const ParsedJson::exception& error) {
    throw Error(ErrorKind::Data, fmt::format("{} is damaged: {}", origin, error.what()));
  }
  return ranks;
}

}  // namespace taxon::report
