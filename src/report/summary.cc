#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/units.h"
#include "report/progress.h"

namespace taxon::report {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN or infinity: a number that is none is null.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return value;
}

Json staleness(const Summary& s) {
  return {{"mean", number(mean_staleness(s.staleness))},
          {"max", s.staleness.size() - 1},
          {"dropped", s.dropped},
          {"histogram", s.staleness}};
}

Json json_of(const CodecUse& use) {
  return {{"level", use.level},
          {"codec", use.codec},
          {"ratio", number(use.ratio())},
          {"dense_bytes_per_step", number(use.dense_bytes_per_step)},
          {"sent_bytes_per_step", number(use.sent_bytes_per_step)},
          {"encode_ms", number(use.encode_ms)},
          {"decode_ms", number(use.decode_ms)}};
}

Json json_of(const CrossingTensor& tensor) {
  Json json = {{"name", tensor.name},
               {"shape", tensor.shape},
               {"bytes", tensor.bytes},
               {"copies_per_step", number(tensor.copies_per_step)},
               {"last_copy", tensor.last_copy}};
  if (!tensor.why.empty()) json["why"] = tensor.why;
  return json;
}

Json json_of(const CoreUse& use) {
  return {{"threads", use.threads},
          {"waiting", use.waiting},
          {"queued_share", use.queued_share < 0 ? Json(nullptr) : number(use.queued_share)},
          {"changes", use.changes}};
}

template <class Item>
Json json_of(const std::vector<Item>& items) {
  Json list = Json::array();
  for (const Item& item : items) list.push_back(json_of(item));
  return list;
}

}  // namespace

std::string codecs_json(const std::vector<CodecUse>& codecs) { return json_of(codecs).dump(); }

std::string describe(const CodecUse& use) {
  return fmt::format(
      "{} at level {}: {:.1f} times less than dense, encode {:.2f} ms, decode {:.2f} ms a step", use.codec,
      use.level, use.ratio(), use.encode_ms, use.decode_ms);
}

double mean_staleness(const std::vector<double>& counts) {
  double count = 0, sum = 0;
  for (std::size_t late = 0; late < counts.size(); ++late) {
    count += counts[late];
    sum += static_cast<double>(late) * counts[late];
  }
  return count > 0 ? sum / count : 0;
}

std::string describe(const std::vector<CrossingTensor>& crossings, std::int64_t copies) {
  const auto last = std::max_element(
      crossings.begin(), crossings.end(),
      [](const CrossingTensor& a, const CrossingTensor& b) { return a.last_copy < b.last_copy; });
  if (last == crossings.end()) return "none";
  const auto fixed = std::count_if(crossings.begin(), crossings.end(),
                                   [](const CrossingTensor& tensor) { return tensor.shape == "static"; });
  std::string text = fmt::format("{} of static shape", fixed);
  if (const auto moving = static_cast<std::int64_t>(crossings.size()) - fixed; moving > 0)
    text += fmt::format(", {} of dynamic", moving);
  text += fmt::format("; copies in the last step: {}", copies);
  if (last->last_copy > 0)
    text += fmt::format("; last copied: {} in step {}, since {}", last->name, last->last_copy, last->why);
  return text;
}

namespace {

Json json_of(const ScoreKind& kind) {
  return {{"name", kind.name},
          {"unit", kind.unit == ScoreKind::Unit::Share ? "share" : "number"},
          {"better", kind.better == ScoreKind::Better::More ? "more" : "less"}};
}

/// The first score stands beside the split, the others in brackets.
std::string result_name(const Summary& s) {
  const bool of_test = s.split == plan::Split::Test;
  if (s.scores.empty()) return of_test ? "test" : "validation";
  const ScoreKind& first = s.scores.front().kind;
  if (of_test) return "test " + title_of(first);
  return first == ScoreKind() ? "validation" : "validation " + title_of(first);
}

std::string result(const Summary& s) {
  const std::string loss = "loss " + decimal(s.loss, 4);
  if (s.scores.empty()) return loss;
  std::string rest;
  for (const Score& score : std::span(s.scores).subspan(1))
    rest += fmt::format("{} {}, ", title_of(score.kind), text_of(score));
  return fmt::format("{}   ({}{})", text_of(s.scores.front()), rest, loss);
}

/// In quotes; what is no plain letter, or what a terminal would take for an order, is escaped.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const Summary& s) {
  Json buckets = Json::array();
  for (const auto& bucket : s.buckets) {
    buckets.push_back({{"bytes", bucket.bytes}, {"collectives", bucket.collectives}});
    if (!bucket.reasons.empty()) buckets.back()["reasons"] = bucket.reasons;
  }
  Json json = {{"name", s.name}, {"taxon_version", s.version}, {"interrupted", s.interrupted}};
  for (const Score& score : s.scores)
    json[fmt::format("{}_{}", s.split, score.kind.name)] =
        s.interrupted ? Json(nullptr) : number(score.value);
  json[fmt::format("{}_loss", s.split)] = s.interrupted ? Json(nullptr) : number(s.loss);
  if (!s.scores.empty()) json["metric"] = json_of(s.scores.front().kind);
  json.update(
      Json{{"train_loss", number(s.train_loss)},
           {"steps", s.steps},
           {"epochs", number(s.epochs)},
           {"samples", s.samples},
           {"samples_per_second", number(s.samples_per_second)},
           {"step_ms", {{"p50", number(s.step_ms_p50)}, {"p95", number(s.step_ms_p95)}}},
           {"compute_ms", number(s.compute_ms)},
           {"exposed_communication_ms", number(s.exposed_communication_ms)},
           {"data_wait_ms", number(s.data_wait_ms)},
           {"bytes_sent_per_step", number(s.bytes_sent_per_step)},
           {"world_size", s.world_size},
           {"transport", s.transport},
           {"parameters", s.parameters},
           {"parameter_hash", fmt::format("{:016x}", s.parameter_hash)},
           {"seed", s.seed},
           {"wall_seconds", number(s.wall_seconds)},
           {"peak_rss_bytes", s.peak_rss_bytes},
           {"arena_bytes",
            {{"weights", s.weight_bytes}, {"gradients", s.gradient_bytes}, {"optimiser", s.optimiser_bytes}}},
           {"gradient_copies_per_step", s.gradient_copies_per_step},
           {"gradient_copy_bytes_per_step", s.gradient_copy_bytes_per_step},
           {"crossing_tensors", json_of(s.crossings)},
           {"buckets", std::move(buckets)}});
  if (s.cores.threads > 0) json["cores"] = json_of(s.cores);
  if (!s.codecs.empty()) json["codecs"] = json_of(s.codecs);
  if (!s.lost.empty()) json["lost_ranks"] = s.lost;
  if (s.skipped_steps > 0) json["skipped_steps"] = s.skipped_steps;
  if (!s.staleness.empty()) json["staleness"] = staleness(s);
  if (!s.written.empty()) json["sample"] = {{"prompt", s.prompt}, {"written", s.written}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_text(const Summary& s, const std::string& folder) {
  std::string text;
  auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<16}{}{}\n", what, std::string_view(what).size() < 16 ? "" : " ", value);
  };
  if (s.interrupted)
    line("interrupted",
         fmt::format("after step {}, {:.2f} epochs; continue with --resume", s.steps, s.epochs));
  else
    line(result_name(s).c_str(), result(s));
  line("speed", fmt::format("{:.0f} samples/s   (step {:.2f} ms median, {:.2f} ms p95)", s.samples_per_second,
                            s.step_ms_p50, s.step_ms_p95));
  line("per step",
       fmt::format("compute {:.2f} ms, exposed communication {:.2f} ms, waiting for data {:.2f} ms",
                   s.compute_ms, s.exposed_communication_ms, s.data_wait_ms));
  if (s.cores.queued_share >= CoreUse::kBusyShare)
    line("cores", fmt::format("busy: rank 0's threads waited {:.0f} % of the time for one; others use them",
                              s.cores.queued_share * 100));
  line("sent", s.world_size == 1
                   ? "nothing: one worker"
                   : fmt::format("{} per step and worker over {}, {} buckets",
                                 format_bytes(s.bytes_sent_per_step), s.transport, s.buckets.size()));
  if (!s.crossings.empty()) line("gradients", describe(s.crossings, s.gradient_copies_per_step));
  for (const CodecUse& use : s.codecs) line("codec", describe(use));
  line("trained", fmt::format("{} parameters, {} workers, {} samples in {} steps, {}", s.parameters,
                              s.world_size, s.samples, s.steps, format_seconds(s.wall_seconds)));
  if (s.skipped_steps > 0)
    line("skipped", fmt::format("{} steps whose loss or gradient was not finite", s.skipped_steps));
  if (!s.written.empty()) line("writes", "after " + quoted(s.prompt) + ": " + quoted(s.written));
  line("outputs", folder + "/");
  if (!s.lost.empty())
    line("lost", fmt::format("rank{} {} on the way; the other workers went on (exit code 3)",
                             s.lost.size() == 1 ? "" : "s", fmt::join(s.lost, ", ")));
  return text;
}

std::string metrics_line(const std::vector<std::pair<std::string, double>>& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = number(value);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace taxon::report
