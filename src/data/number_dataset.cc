#include "data/number_dataset.h"

#include <algorithm>

#include "base/check.h"

namespace taxon::data {
namespace {

void copy(const Values& from, std::int64_t elements, std::span<const std::int64_t> indices, const Room& to) {
  TAXON_CHECK(to.type() == from.type(), to_string(to.type()), " for ", to_string(from.type()));
  TAXON_CHECK(to.size() == indices.size() * static_cast<std::size_t>(elements), to.size(), " elements");
  to.visit([&]<class T>(std::span<T> room) {
    auto at = room.begin();
    for (const std::int64_t index : indices)
      at = std::copy_n(from.as<std::span<const T>>().begin() + index * elements, elements, at);
  });
}

}  // namespace

NumberDataset::NumberDataset(SampleShape shape, Samples samples)
    : shape_(std::move(shape)),
      samples_(std::move(samples)),
      size_(static_cast<std::int64_t>(samples_.labels.size()) / shape_.targets()) {
  const std::vector<Part> inputs = shape_.inputs();
  TAXON_CHECK(samples_.parts.size() == inputs.size(), samples_.parts.size(), " parts");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    TAXON_CHECK(samples_.parts[i].size() == static_cast<std::size_t>(size_ * inputs[i].elements()));
}

void NumberDataset::read_parts(std::optional<std::int64_t>, std::span<const std::int64_t> indices,
                               const Rooms& rooms) const {
  for (const std::int64_t index : indices)
    TAXON_CHECK(index >= 0 && index < size_, "index ", index, " of ", size_);
  const std::vector<Part> inputs = shape_.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    copy(samples_.parts[i], inputs[i].elements(), indices, rooms.inputs[i]);
  copy(samples_.labels, shape_.targets(), indices, rooms.labels);
}

}  // namespace taxon::data
