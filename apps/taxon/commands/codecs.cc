#include "apps/taxon/commands/codecs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/taxon/commands/command.h"
#include "base/error.h"
#include "base/units.h"
#include "job/inputs.h"
#include "job/recipes.h"
#include "launch/core_pressure.h"
#include "plan/profile.h"
#include "plan/text.h"
#include "planner/codec_figures.h"

namespace taxon::app {
namespace {

/// Bytes per second.
double parse_link(const std::string& text) {
  const plan::Field rate{
      .key = "link", .sentence = "", .min = 0, .above_min = true, .unit = plan::Unit::BytesPerSecond};
  double bytes = 0;
  if (!plan::parse_text(rate, text, bytes))
    throw Error(ErrorKind::Usage,
                fmt::format("--link must be {}: it is \"{}\"", plan::allowed(rate, bytes), text));
  return bytes;
}

/// Of a plan whose rows' keys nobody has checked: the codec section with keys of any codec, since each takes
/// those that it has; the first level's that has any. Throws Error{Usage} for a key that no codec has.
plan::CodecPlan codec_options(const plan::Plan& plan, const plan::Catalogue& known) {
  const auto& levels = plan.exchange.levels;
  const auto level = std::find_if(levels.begin(), levels.end(), [](const plan::LevelPlan& each) {
    return each.codec.name != "none" || !each.codec.options.given().empty();
  });
  if (level == levels.end()) return {};
  for (const auto& [key, text] : level->codec.options.given()) {
    const bool is_known = std::any_of(known.codecs.begin(), known.codecs.end(), [&](const auto& codec) {
      return std::any_of(codec.options.begin(), codec.options.end(),
                         [&](const plan::OptionKey& option) { return option.key == key; });
    });
    if (!is_known)
      throw Error(ErrorKind::Usage, fmt::format("exchange.levels.codec.{}: no codec has it", key));
  }
  return level->codec;
}

/// One codec with what follows from its figures.
struct Line {
  std::string name;
  planner::CodecFigures figures;
  double step = 0;  // seconds of a step that hides nothing
  double spread() const { return std::max(figures.encode.spread(), figures.decode.spread()); }
};

/// All that the command finds; times in seconds.
struct CodecFindings {
  std::string recipe;
  int steps = 0, workers = 0;
  double bytes = 0, pass = 0, copy = 0, link = 0;
  double dense_sent = 0, dense_step = 0;
  std::vector<Line> lines;
  std::optional<double> queued_share;

  /// Null: dense.
  const Line* best() const {
    const auto least = std::min_element(lines.begin(), lines.end(),
                                        [](const Line& a, const Line& b) { return a.step < b.step; });
    return least != lines.end() && least->step < dense_step ? &*least : nullptr;
  }
};

std::string to_text(const CodecFindings& all, const std::string& link) {
  std::string text = fmt::format(
      "{}: a gradient of {} after {} steps; a pass takes {} ms; one core copies {:.1f} GB/s\n"
      "{} workers, links of {}: dense sends {} a step, which takes {} ms\n",
      all.recipe, format_bytes(all.bytes), all.steps, format_milliseconds(all.pass), all.copy / 1e9,
      all.workers, link, format_bytes(all.dense_sent), format_milliseconds(all.dense_step));
  text +=
      fmt::format("{:<14} {:>11} {:>9} {:>11} {:>9} {:>7} {:>8} {:>12} {:>9} {:>9}\n", "codec", "encode, ms",
                  "of copy", "decode, ms", "of copy", "ratio", "error", "sent", "step, ms", "spread");
  for (const auto& [name, figures, step] : all.lines) {
    const double streamed = (figures.values_bytes + figures.wire_bytes) / all.copy;
    const double spread = std::max(figures.encode.spread(), figures.decode.spread());
    text += fmt::format("{:<14} {:>11} {:>9} {:>11} {:>9} {:>7.1f} {:>8.3f} {:>12} {:>9} {:>9}\n", name,
                        format_milliseconds(figures.encode.median),
                        fmt::format("{:.0f} %", 100 * streamed / figures.encode.median),
                        format_milliseconds(figures.decode.median),
                        fmt::format("{:.0f} %", 100 * streamed / figures.decode.median),
                        figures.values_bytes / figures.wire_bytes, figures.error, format_bytes(figures.sent),
                        format_milliseconds(step), planner::describe_spread(spread));
  }
  const Line* best = all.best();
  text += fmt::format(
      "shortest step: {} ({} ms, dense {} ms); that says nothing about how many steps training takes. Times "
      "are those of a step that hides nothing behind the backward pass, on links without latency; their "
      "spread is "
      "half the distance of the quartiles.\n",
      best ? best->name : "dense", format_milliseconds(best ? best->step : all.dense_step),
      format_milliseconds(all.dense_step));
  return text + planner::busy_warning(all.queued_share);
}

std::string to_json(const CodecFindings& all) {
  using Json = nlohmann::ordered_json;
  Json codecs = Json::array();
  for (const Line& line : all.lines)
    codecs.push_back({{"name", line.name},
                      {"encode_seconds", line.figures.encode.median},
                      {"decode_seconds", line.figures.decode.median},
                      {"spread", line.spread()},
                      {"ratio", line.figures.values_bytes / line.figures.wire_bytes},
                      {"error", line.figures.error},
                      {"sent_bytes", line.figures.sent},
                      {"step_seconds", line.step}});
  const Line* best = all.best();
  const Json json = {{"recipe", all.recipe},
                     {"workers", all.workers},
                     {"gradient_bytes", all.bytes},
                     {"pass_seconds", all.pass},
                     {"copy_bytes_per_second", all.copy},
                     {"link_bytes_per_second", all.link},
                     {"dense", {{"sent_bytes", all.dense_sent}, {"step_seconds", all.dense_step}}},
                     {"codecs", std::move(codecs)},
                     {"shortest", best ? best->name : "dense"},
                     {"queued_share", all.queued_share ? Json(*all.queued_share) : Json(nullptr)},
                     {"trusted", planner::busy_warning(all.queued_share).empty()}};
  return json.dump(2) + "\n";
}

int run(const CodecsArguments& arguments) {
  const plan::Catalogue known = job::catalogue();
  plan::Catalogue but_codecs = known;  // of which the recipe's keys are for several
  but_codecs.codecs.clear();
  plan::Plan plan = plan::read_plan(arguments.recipe, arguments.overrides, &but_codecs);
  const plan::CodecPlan options = codec_options(plan, known);
  plan = plan::override_plan(plan, {}, &known);
  plan::require_legal(plan::check_plan(plan, arguments.workers, known));
  if (plan.precision.master != DType::Float32)
    throw Error(ErrorKind::Usage, "precision.master must be float32 for codecs");
  CodecFindings all{.recipe = plan.name, .steps = arguments.steps, .workers = arguments.workers};
  all.link = parse_link(arguments.link);
  data::FileStorage storage;
  job::TrainingInputs inputs = job::open_training_inputs(plan, storage, 0, 1);
  launch::CorePressure pressure;
  const planner::RecordedGradient gradient =
      planner::record_gradient(*inputs.model, *inputs.datasets.train, plan,
                               plan::pass_samples(plan, arguments.workers), arguments.steps);
  all.bytes = static_cast<double>(gradient.values.size()) * sizeof(float);
  all.pass = gradient.seconds;
  all.copy = planner::copy_bandwidth(gradient.values.size() * sizeof(float));
  all.dense_sent = planner::dense_bytes(gradient, arguments.workers);
  all.dense_step = gradient.seconds + all.dense_sent / all.link;
  for (const codec::CodecRow& row : codec::codec_table()) {
    const planner::CodecFigures figures = planner::measure_codec(row, options, gradient, arguments.workers);
    all.lines.push_back({std::string(row.name), figures,
                         gradient.seconds + figures.step_codec_seconds + figures.sent / all.link});
  }
  all.queued_share = pressure.take_share();
  std::cout << (arguments.json ? to_json(all) : to_text(all, arguments.link));
  return 0;
}

}  // namespace

int run_codecs(const CodecsArguments& arguments) {
  return run_alone([&] { return run(arguments); });
}

}  // namespace taxon::app
