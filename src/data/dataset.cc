#include "data/dataset.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "data/selection.h"

namespace taxon::data {
namespace {

void require_same(const plan::DataPlan& plan, const Dataset& train, const Dataset* other,
                  std::string_view name) {
  if (!other || other->shape() == train.shape()) return;
  auto words = [](const Dataset& set) {
    return fmt::format("{} of {} classes", describe(set.shape()), set.shape().classes);
  };
  throw Error(ErrorKind::Data, fmt::format("data: the {} set of {} has {}, but the training set has {}", name,
                                           plan.path, words(*other), words(train)));
}

}  // namespace

/// A byte becomes a number.
tensor::Cost Dataset::cost(std::int64_t samples) const {
  return {0, static_cast<std::size_t>(samples * shape().elements()) * (sizeof(float) + 1)};
}

void Dataset::read(std::span<const std::int64_t> indices, std::span<float> inputs,
                   std::span<std::int64_t> labels) const {
  read_parts({}, indices, {{inputs}, labels});
}

void Dataset::read_tokens(std::span<const std::int64_t> indices, std::span<std::int64_t> inputs,
                          std::span<std::int64_t> targets) const {
  read_parts({}, indices, {{inputs}, targets});
}

void Dataset::read_parts(std::optional<std::int64_t>, std::span<const std::int64_t> indices,
                         const Rooms& rooms) const {
  TAXON_CHECK(rooms.inputs.size() == 1 && !shape().has_real_targets(), describe(shape()));
  if (shape().input_type == DType::Int64)
    read_tokens(indices, whole(rooms.inputs[0]), whole(rooms.labels));
  else
    read(indices, numbers(rooms.inputs[0]), whole(rooms.labels));
}

Rooms Rooms::of(std::size_t sample, std::size_t samples) const {
  const auto of_sample = [&](const Room& room) {
    return room.visit([&](auto elements) {
      const std::size_t each = elements.size() / samples;
      return Room(elements.subspan(sample * each, each));
    });
  };
  Rooms one{.inputs = {}, .labels = of_sample(labels)};
  for (const Room& input : inputs) one.inputs.push_back(of_sample(input));
  return one;
}

Samples::Samples(const SampleShape& shape, std::size_t size)
    : labels(shape.target_type, size * static_cast<std::size_t>(shape.targets())) {
  for (const Part& part : shape.inputs())
    parts.emplace_back(part.type, size * static_cast<std::size_t>(part.elements()));
}

std::size_t Samples::bytes() const {
  std::size_t bytes = labels.bytes();
  for (const Elements& part : parts) bytes += part.bytes();
  return bytes;
}

Rooms Samples::rooms(const SampleShape& shape, Range samples) {
  const auto room = [samples](Elements& elements, std::int64_t each) {
    const auto size = static_cast<std::size_t>(each);
    return elements.room(samples.begin * size, samples.size * size);
  };
  const std::vector<Part> inputs = shape.inputs();
  Rooms rooms{.inputs = {}, .labels = room(labels, shape.targets())};
  for (std::size_t i = 0; i < parts.size(); ++i) rooms.inputs.push_back(room(parts[i], inputs[i].elements()));
  return rooms;
}

Samples read_samples(const Dataset& dataset, std::span<const std::int64_t> indices) {
  Samples samples(dataset.shape(), indices.size());
  dataset.read_parts({}, indices, samples.rooms(dataset.shape(), {0, indices.size()}));
  return samples;
}

Datasets open_datasets(const plan::DataPlan& plan, const Storage& storage, std::span<const DatasetRow> own) {
  const DatasetRow& row = find_dataset(plan.dataset, own);
  auto faults = std::make_shared<FaultLog>(plan.faulty);
  Datasets sets = row.open({plan, storage, faults});
  sets.faults = std::move(faults);
  require_same(plan, *sets.train, sets.test.get(), "test");
  require_same(plan, *sets.train, sets.validation.get(), "validation");
  const bool drawn = row.by_class || plan.split_seed != 0;
  auto limit = [&](std::unique_ptr<Dataset>& set, std::int64_t size) {
    if (set && size > 0 && size < set->size())
      set = select(std::move(set), drawn ? Order::Drawn : Order::AsTheyLie, plan.split_seed, 0, size);
  };
  limit(sets.train, plan.train_limit);
  limit(sets.test, plan.test_limit);
  return sets;
}

void read_usable(const Dataset& whole, std::int64_t size,
                 const std::function<std::int64_t(std::int64_t)>& in_whole,
                 std::span<const std::int64_t> indices, const Rooms& rooms) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Rooms room = rooms.of(i, indices.size());
    std::int64_t tried = 0;
    while (tried < size && !whole.read_usable(in_whole((indices[i] + tried) % size), room)) ++tried;
    if (tried == size) throw Error(ErrorKind::Data, "data: there is no sample that can be read any more");
  }
}

}  // namespace taxon::data
