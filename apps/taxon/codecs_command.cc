#include "apps/taxon/codecs_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "apps/taxon/codec_figures.h"
#include "apps/taxon/command.h"
#include "apps/taxon/preflight.h"
#include "base/error.h"
#include "base/units.h"
#include "plan/profile.h"
#include "plan/text.h"

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

/// The options of the recipe's own codec, or what codecs have by themselves.
plan::CodecPlan codec_options(const plan::Plan& plan) {
  for (const plan::LevelPlan& level : plan.exchange.levels)
    if (level.codec.name != "none") return level.codec;
  return {};
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f}", seconds * 1e3); }

int run(const CodecsArguments& arguments) {
  plan::Plan plan = plan::read_plan(arguments.recipe, arguments.overrides);
  plan::require_legal(plan::check_plan(plan, arguments.workers, known_names()));
  if (plan.precision.master != DType::Float32)
    throw Error(ErrorKind::Usage, "precision.master must be float32 for codecs");
  const double link = parse_link(arguments.link);
  data::FileStorage storage;
  Ingredients ingredients = open_ingredients(plan, storage, 0, 1);
  const RecordedGradient gradient =
      record_gradient(*ingredients.model, *ingredients.datasets.train, plan,
                      plan::pass_samples(plan, arguments.workers), arguments.steps);
  const plan::CodecPlan options = codec_options(plan);
  const double bytes = static_cast<double>(gradient.values.size()) * sizeof(float);
  const double copy = copy_bandwidth(gradient.values.size() * sizeof(float));
  const double dense = dense_bytes(gradient, arguments.workers);
  const double dense_step = gradient.seconds + dense / link;
  std::cout << fmt::format(
      "{}: a gradient of {} after {} steps; a pass takes {} ms; one core copies {:.1f} GB/s\n"
      "{} workers, links of {}: dense sends {} a step, which takes {} ms\n",
      plan.name, format_bytes(bytes), arguments.steps, milliseconds(gradient.seconds), copy / 1e9,
      arguments.workers, arguments.link, format_bytes(dense), milliseconds(dense_step));
  std::cout << fmt::format("{:<14} {:>11} {:>9} {:>11} {:>9} {:>7} {:>8} {:>12} {:>9}\n", "codec",
                           "encode, ms", "of copy", "decode, ms", "of copy", "ratio", "error", "sent",
                           "step, ms");
  std::string best = "dense";
  double best_step = dense_step;
  for (const codec::CodecRow& row : codec::codec_table()) {
    const CodecFigures figures = measure_codec(row, options, gradient, arguments.workers);
    const double streamed = (figures.values_bytes + figures.wire_bytes) / copy;
    const double step = gradient.seconds + figures.step_codec_seconds + figures.sent / link;
    std::cout << fmt::format("{:<14} {:>11} {:>9} {:>11} {:>9} {:>7.1f} {:>8.3f} {:>12} {:>9}\n", row.name,
                             milliseconds(figures.encode_seconds),
                             fmt::format("{:.0f} %", 100 * streamed / figures.encode_seconds),
                             milliseconds(figures.decode_seconds),
                             fmt::format("{:.0f} %", 100 * streamed / figures.decode_seconds),
                             figures.values_bytes / figures.wire_bytes, figures.error,
                             format_bytes(figures.sent), milliseconds(step));
    if (step < best_step) {
      best = row.name;
      best_step = step;
    }
  }
  std::cout << fmt::format(
      "shortest step: {} ({} ms, dense {} ms); that says nothing about how many steps training takes. Times "
      "are those of a step that hides nothing behind the backward pass, on links without latency.\n",
      best, milliseconds(best_step), milliseconds(dense_step));
  return 0;
}

}  // namespace

int run_codecs(const CodecsArguments& arguments) {
  return run_alone([&] { return run(arguments); });
}

}  // namespace taxon::app
