#include "planner/timed_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/forwarding.h"
#include "model/profile_model.h"

namespace taxon::planner {
namespace {

/// What has that name; null: nothing has.
template <class T>
const T* find(const std::vector<T>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const T& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Error unknown(const std::vector<std::string>& others) {
  const std::string more =
      others.size() > 1 ? fmt::format(", and {} more differ", others.size() - 1) : std::string();
  return Error(ErrorKind::Usage,
               fmt::format("the profile is of other layers, or of other parts of them: {}{}; "
                           "profile this recipe with the same --workers and --set",
                           others.front(), more));
}

/// `spec` with the costs of `measured`.
model::ModelSpec timed(model::ModelSpec spec, const model::ModelSpec& measured) {
  std::vector<std::string> others;
  spec.gradient_times.clear();
  for (const model::ParameterSpec& parameter : spec.parameters) {
    const model::ParameterSpec* known = find(measured.parameters, parameter.name);
    if (!known || known->shape != parameter.shape)
      others.push_back(
          fmt::format("{} is [{}] here, {}", parameter.name, fmt::join(parameter.shape, ", "),
                      known ? fmt::format("not [{}]", fmt::join(known->shape, ", ")) : "and not there"));
    else if (!measured.gradient_times.empty())
      spec.gradient_times.push_back(
          measured.gradient_times[static_cast<std::size_t>(known - measured.parameters.data())]);
  }
  for (model::Segment& segment : spec.segments) {
    const model::Segment* known = find(measured.segments, segment.name);
    if (!known) {
      others.push_back(fmt::format("it has no segment {}", segment.name));
      continue;
    }
    segment.forward_seconds = known->forward_seconds;
    segment.backward_seconds = known->backward_seconds;
  }
  if (!others.empty()) throw unknown(others);
  return spec;
}

class TimedModel final : public model::ForwardingModel {
 public:
  TimedModel(std::unique_ptr<model::Model> inner, const plan::ModelProfile& profile)
      : ForwardingModel(std::move(inner)), measured_(model::spec_of(profile)) {
    take_spec();
    if (model::Staged* staged = this->inner().staged()) stages_ = std::make_unique<Stages>(*this, *staged);
  }

  const model::ModelSpec& spec() const override { return spec_; }
  model::Staged* staged() override { return stages_.get(); }
  void bind(const model::Binding& binding) override {
    ForwardingModel::bind(binding);
    spec_ = timed_;
  }

 private:
  class Stages final : public model::ForwardingStages {
   public:
    Stages(TimedModel& timed, model::Staged& inner) : ForwardingStages(inner), timed_(timed) {}
    void divide(const model::Division& division) override {
      ForwardingStages::divide(division);
      timed_.take_spec();
    }

   private:
    TimedModel& timed_;
  };

  void take_spec() {
    spec_ = inner().spec();
    // Where parts are measured there are no times for the whole.
    timed_ = spec_.members == measured_.members ? timed(spec_, measured_) : spec_;
  }

  const model::ModelSpec measured_;
  model::ModelSpec spec_, timed_;
  std::unique_ptr<Stages> stages_;
};

}  // namespace

std::unique_ptr<model::Model> with_times(std::unique_ptr<model::Model> model,
                                         const plan::ModelProfile& profile) {
  return std::make_unique<TimedModel>(std::move(model), profile);
}

}  // namespace taxon::planner
