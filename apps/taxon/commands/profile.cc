#include "apps/taxon/commands/profile.h"

#include <fmt/format.h>

#include <iostream>

#include "apps/taxon/commands/command.h"
#include "base/error.h"
#include "base/units.h"
#include "base/version.h"
#include "job/inputs.h"
#include "job/recipes.h"
#include "launch/host.h"
#include "planner/profiling.h"

namespace taxon::app {
namespace {

std::string table(const plan::ModelProfile& profile) {
  std::string text = fmt::format("{}: {} parameters ({}), {} samples a pass in {}\n", profile.model,
                                 plan::parameter_count(profile), plan::fingerprint(profile), profile.batch,
                                 to_string(profile.compute));
  if (profile.tensor > 1)
    text += fmt::format(
        "of one of {} members that layers are split over; samples that others pass count as its own\n",
        profile.tensor);
  text += fmt::format("{:<28} {:>12} {:>14} {:>14}  gradients complete after\n", "segment", "parameters",
                      "forward, ms", "backward, ms");
  double forward = 0, backward = 0;
  for (const plan::SegmentProfile& segment : profile.segments) {
    plan::ModelProfile alone;
    alone.segments = {segment};
    std::string gradients;
    for (const plan::ParameterProfile& parameter : segment.parameters)
      if (parameter.trainable && parameter.gradient > 0)
        gradients +=
            fmt::format("{}{}", gradients.empty() ? "" : ", ", format_milliseconds(parameter.gradient));
    text +=
        fmt::format("{:<28} {:>12} {:>14} {:>14}  {}\n", segment.name, plan::parameter_count(alone),
                    format_milliseconds(segment.forward), format_milliseconds(segment.backward), gradients);
    forward += segment.forward;
    backward += segment.backward;
  }
  text += fmt::format("{:<28} {:>12} {:>14} {:>14}\n", "all", plan::parameter_count(profile),
                      format_milliseconds(forward), format_milliseconds(backward));
  return text + fmt::format("update of all parameters: {} ms\nreading a batch: {} ms\n",
                            format_milliseconds(profile.update), format_milliseconds(profile.read));
}

int run(const ProfileArguments& arguments) {
  plan::Plan plan = job::read_recipe(arguments.recipe, arguments.overrides);
  if (arguments.threads > 0) plan.threads = arguments.threads;
  plan::require_legal(plan::check_plan(plan, arguments.workers, job::catalogue()));
  data::FileStorage storage;
  job::TrainingInputs inputs = job::open_training_inputs(plan, storage, 0, 1);
  planner::ProfilingOptions options;
  options.workers = arguments.workers;
  options.steps = arguments.steps;
  options.threads = job::compute_threads(plan, 1);
  planner::MeasuredProfile measurement = planner::measure_profile(inputs, plan, options);
  plan::ModelProfile& profile = measurement.profile;
  profile.threads = options.threads;
  profile.source = fmt::format("taxon {} on {}, {} thread(s), median of {} steps", version_number(),
                               launch::processor_name(), profile.threads, arguments.steps);
  std::cout << table(profile)
            << fmt::format("backward passes: {} (half the distance of the quartiles)\n",
                           planner::describe_spread(measurement.backward.spread()))
            << planner::busy_warning(measurement.queued_share);
  if (!arguments.out.empty()) {
    write_file(arguments.out, plan::write_profile(profile));
    std::cout << "profile: " << arguments.out << "\n";
  }
  return 0;
}

}  // namespace

int run_profile(const ProfileArguments& arguments) {
  return run_alone([&] { return run(arguments); });
}

}  // namespace taxon::app
