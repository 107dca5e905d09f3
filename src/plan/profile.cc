#include "plan/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plan/model_file.h"
#include "plan/nearest.h"
#include "plan/plan.h"

namespace taxon::plan {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

std::int64_t count_of(const ParameterProfile& parameter) {
  std::int64_t count = 1;
  for (std::int64_t extent : parameter.shape) count = std::min(kMostElements, count * extent);
  return count;
}

/// Collects what is wrong, in the order of the file.
class ProfileCheck {
 public:
  explicit ProfileCheck(const ModelProfile& profile) : profile_(profile), measured_(is_measured(profile)) {}

  std::vector<std::string> run() {
    if (profile_.model.empty()) complain("model is missing: the name that recipes give the model");
    if (profile_.segments.empty()) complain("segments is missing: a model has at least one segment");
    if (measured_ && profile_.batch == 0)
      complain("batch is missing: times are of a pass of so many samples");
    if (!measured_ && profile_.batch > 0)
      complain("batch means nothing where operations of one sample are given: leave it out");
    if (!measured_ && profile_.tensor > 1)
      complain("tensor means nothing where operations are given: they are of whole layers");
    if (profile_.input.empty()) complain("input is missing: the shape of one sample");
    for (std::size_t s = 0; s < profile_.segments.size(); ++s)
      segment(profile_.segments[s], fmt::format("segments[{}]", s));
    if (trained_.empty() && !profile_.segments.empty()) complain("no parameter is trainable");
    completion();
    return std::move(problems_);
  }

 private:
  void complain(std::string text) { problems_.push_back(std::move(text)); }

  void segment(const SegmentProfile& segment, const std::string& path) {
    if (segment.name.empty()) complain(path + ".name is missing");
    if (!segment.name.empty() && !segments_.insert(segment.name).second)
      complain(fmt::format("{}: two segments are called \"{}\"", path, segment.name));
    const bool times = segment.forward > 0 || segment.backward > 0;
    const bool flops = segment.forward_flops > 0 || segment.backward_flops > 0;
    if (times && flops)
      complain(path + " gives both times and operations: a profile is measured or counted, not both");
    if (measured_ && flops && !times)
      complain(path + " gives operations where other segments give times: give one of them throughout");
    bool trains = false;
    for (std::size_t p = 0; p < segment.parameters.size(); ++p) {
      parameter(segment.parameters[p], fmt::format("{}.parameters[{}]", path, p));
      trains = trains || segment.parameters[p].trainable;
    }
    if (trains && !measured_ && !flops)
      complain(fmt::format("{} (\"{}\") has parameters and no cost: give forward_flops", path, segment.name));
  }

  void parameter(const ParameterProfile& parameter, const std::string& path) {
    if (parameter.name.empty()) complain(path + ".name is missing");
    if (!parameter.name.empty() && !names_.insert(parameter.name).second)
      complain(fmt::format("{}: two parameters are called \"{}\"", path, parameter.name));
    if (count_of(parameter) == 0 || count_of(parameter) >= kMostElements)
      complain(fmt::format("{}.shape is [{}]: extents must be above 0, and fewer than 2^50 elements", path,
                           fmt::join(parameter.shape, ", ")));
    if (parameter.gradient_from > parameter.gradient)
      complain(fmt::format("{}.gradient_from ({} s) is after .gradient ({} s)", path, parameter.gradient_from,
                           parameter.gradient));
    if (!measured_ && parameter.gradient > 0)
      complain(path + ".gradient is a time, but the segments give operations");
    double backward = 0;
    for (const SegmentProfile& each : profile_.segments) backward += each.backward;
    if (measured_ && parameter.gradient > backward * (1 + 1e-6))
      complain(fmt::format("{}.gradient ({} s) is after the end of the backward pass ({} s)", path,
                           parameter.gradient, backward));
    if (parameter.trainable) trained_.push_back(parameter.name);
  }

  void completion() {
    if (profile_.completion.empty()) return;
    std::set<std::string> seen;
    for (const std::string& name : profile_.completion) {
      if (std::find(trained_.begin(), trained_.end(), name) == trained_.end())
        complain(fmt::format("completion names \"{}\", which is no trained parameter{}", name,
                             suggestion(nearest(name, trained_))));
      if (!seen.insert(name).second) complain(fmt::format("completion names \"{}\" twice", name));
    }
    for (const std::string& name : trained_)
      if (!seen.contains(name)) complain(fmt::format("completion lacks the trained parameter \"{}\"", name));
  }

  const ModelProfile& profile_;
  const bool measured_;
  std::set<std::string> names_, segments_;
  std::vector<std::string> trained_;
  std::vector<std::string> problems_;
};

bool matches(const std::string& name, const std::string& pattern) {
  if (!pattern.empty() && pattern.back() == '*')
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

}  // namespace

std::int64_t parameter_count(const ModelProfile& profile) {
  std::int64_t count = 0;
  for (const SegmentProfile& segment : profile.segments)
    for (const ParameterProfile& parameter : segment.parameters) count += count_of(parameter);
  return count;
}

bool is_measured(const ModelProfile& profile) {
  return std::any_of(profile.segments.begin(), profile.segments.end(), [](const SegmentProfile& segment) {
    return segment.forward > 0 || segment.backward > 0;
  });
}

std::string fingerprint(const ModelProfile& profile) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  auto add = [&](const std::string& text) {
    for (char c : text + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  };
  for (const SegmentProfile& segment : profile.segments)
    for (const ParameterProfile& parameter : segment.parameters)
      add(fmt::format("{} [{}]", parameter.name, fmt::join(parameter.shape, ", ")));
  return fmt::format("{:016x}", hash);
}

std::vector<std::string> profile_problems(const ModelProfile& profile) { return ProfileCheck(profile).run(); }

std::vector<std::string> profile_mismatches(const ModelProfile& profile, const Plan& plan, int world_size) {
  std::vector<std::string> problems;
  const std::string wanted = model_label(plan.model);
  if (profile.model != wanted)
    problems.push_back(
        fmt::format("it is of model \"{}\", but the recipe trains \"{}\"", profile.model, wanted));
  for (const std::string& pattern : plan.model.frozen) {
    bool any = false;
    for (const SegmentProfile& segment : profile.segments)
      for (const ParameterProfile& parameter : segment.parameters)
        any = any || matches(parameter.name, pattern);
    if (!any) problems.push_back(fmt::format("model.frozen: no parameter is named {}", pattern));
  }
  for (const SegmentProfile& segment : profile.segments)
    for (const ParameterProfile& parameter : segment.parameters) {
      const bool frozen =
          std::any_of(plan.model.frozen.begin(), plan.model.frozen.end(),
                      [&](const std::string& pattern) { return matches(parameter.name, pattern); });
      if (frozen == parameter.trainable && is_measured(profile))
        problems.push_back(fmt::format("{} was {} when it was measured, but the recipe {} it", parameter.name,
                                       frozen ? "trained" : "frozen", frozen ? "freezes" : "trains"));
    }
  if (!is_measured(profile)) return problems;
  if (profile.compute != plan.precision.compute)
    problems.push_back(fmt::format("it was measured in {}, but precision.compute is {}",
                                   to_string(profile.compute), to_string(plan.precision.compute)));
  if (profile.tensor != plan.mesh.tensor)
    problems.push_back(
        fmt::format("it was measured with mesh.tensor: {}, but the recipe has {}: profile this recipe",
                    profile.tensor, plan.mesh.tensor));
  const std::int64_t samples = pass_samples(plan, world_size);
  if (profile.batch != samples)
    problems.push_back(fmt::format(
        "it was measured with {} sample(s) a pass, but a worker's share is {} a micro-batch (batch and "
        "micro_batches, {} workers)",
        profile.batch, samples, world_size));
  return problems;
}

std::int64_t pass_samples(const Plan& plan, int world_size) {
  auto rounded_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t share = rounded_up(global_batch(plan, world_size), workers(plan, world_size));
  return rounded_up(share, std::max(1, plan.batch.micro_batches));
}

}  // namespace taxon::plan
