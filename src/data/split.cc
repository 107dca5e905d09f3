#include "data/split.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/row_members.h"
#include "data/selection.h"

namespace taxon::data {
namespace {

/// How many training samples are set aside.
std::int64_t count_aside(const plan::DataPlan& plan, std::int64_t size) {
  if (plan.validation_share == 0) return plan.validation;
  return std::max<std::int64_t>(1, std::llround(plan.validation_share * static_cast<double>(size)));
}

void set_aside(const plan::DataPlan& plan, Order order, Datasets& sets) {
  const std::int64_t size = sets.train->size(), aside = count_aside(plan, size);
  if (aside == 0) return;
  if (aside >= size)
    throw Error(ErrorKind::Usage,
                fmt::format("data.validation: it is {}, and there are {} training samples; leave some to "
                            "train on",
                            aside, size));
  const std::shared_ptr<const Dataset> whole = std::move(sets.train);
  sets.train = select(whole, order, plan.split_seed, 0, size - aside);
  sets.validation = select(whole, order, plan.split_seed, size - aside, aside);
}

void require_samples(const plan::DataPlan& plan, const Dataset* set, std::string_view name,
                     FaultLog* faults) {
  if (set && set->size() > 0) return;
  if (const auto left_out = set && faults ? faults->rest() : std::nullopt)
    throw Error(ErrorKind::Data, fmt::format("data: {} has no {} samples: {}", plan.path, name, *left_out));
  throw Error(ErrorKind::Usage,
              fmt::format("data: {} has no {} samples{}", plan.path, name,
                          set ? ""
                              : "; give data.test_path, or set training samples aside and evaluate on "
                                "these: data.validation_share=0.1 and evaluation.split=validation"));
}

}  // namespace

Datasets open_split(const plan::Plan& plan, const Storage& storage, const OwnRows& own) {
  Problems problems;
  require_members(problems, "datasets", own.datasets, std::pair{"open", &DatasetRow::open});
  require_members(problems, "transforms", own.transforms, std::pair{"make", &TransformRow::make});
  problems.require_none();
  Datasets sets = open_datasets(plan.data, storage, own.datasets);
  require_samples(plan.data, sets.train.get(), "training", sets.faults.get());
  const bool drawn = find_dataset(plan.data.dataset, own.datasets).by_class || plan.data.split_seed != 0;
  set_aside(plan.data, drawn ? Order::Drawn : Order::AsTheyLie, sets);
  if (plan.evaluation.split == plan::Split::Validation) sets.test = std::move(sets.validation);
  require_samples(plan.data, sets.test.get(), "test", sets.faults.get());
  sets.train = transformed(std::move(sets.train), plan.data, Chance::Training, plan.seed, own.transforms);
  sets.test = transformed(std::move(sets.test), plan.data, Chance::None, plan.seed, own.transforms);
  return sets;
}

}  // namespace taxon::data
