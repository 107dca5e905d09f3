#include <bit>
#include <cstring>

#include "comm/sum.h"
#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

using Bytes = std::vector<std::byte>;

View view(Bytes& bytes) { return View(bytes.data(), bytes.size()); }
Bytes copy(ConstView bytes) { return Bytes(bytes.data(), bytes.data() + bytes.size()); }

void add(DType type, View target, std::initializer_list<ConstView> sources) {
  if (!target.empty()) comm::sum_into(type, target, {sources.begin(), sources.size()});
}

/// Part `index` of the data, in bytes.
Range part_of(std::size_t bytes, DType type, std::size_t parts, std::size_t index) {
  const std::size_t element = size_of(type);
  const Range range = part({0, bytes / element}, parts, index);
  return {range.begin * element, range.size * element};
}

}  // namespace

Bytes sum_in_order(std::span<const ConstView> members, DType type) {
  Bytes sum(members[0].size());
  if (!sum.empty()) comm::sum_into(type, view(sum), members);
  return sum;
}

/// A part begins behind its owner and ends there; everybody on the way adds it to its own.
Bytes sum_along_ring(std::span<const ConstView> members, DType type) {
  const std::size_t size = members.size();
  Bytes sum(members[0].size());
  for (std::size_t owner = 0; owner < size; ++owner) {
    const Range range = part_of(sum.size(), type, size, owner);
    const View target = view(sum).slice(range.begin, range.size);
    if (target.empty()) continue;
    std::memcpy(target.data(), members[(owner + 1) % size].data() + range.begin, range.size);
    for (std::size_t step = 2; step <= size; ++step)
      add(type, target, {members[(owner + step) % size].slice(range.begin, range.size), target});
  }
  return sum;
}

Bytes sum_by_halving(std::span<const ConstView> members, DType type) {
  const std::size_t power = std::bit_floor(members.size()), surplus = members.size() - power;
  std::vector<Bytes> held;
  for (std::size_t place = 0; place < power; ++place) {
    held.push_back(copy(members[place < surplus ? 2 * place : place + surplus]));
    if (place < surplus) add(type, view(held.back()), {view(held.back()), members[2 * place + 1]});
  }
  for (std::size_t distance = power / 2; distance > 0; distance /= 2)
    for (std::size_t place = 0; place < distance; ++place)
      add(type, view(held[place]), {view(held[place]), view(held[place + distance])});
  return std::move(held[0]);
}

Bytes sum_up_tree(std::span<const ConstView> members, DType type) {
  std::vector<Bytes> held(members.size());  // of members with children, until their parent has it
  auto of = [&](std::size_t member) -> ConstView {
    return 2 * member + 1 < members.size() ? ConstView(view(held[member])) : members[member];
  };
  for (std::size_t member = members.size() / 2; member-- > 0;) {
    const std::size_t left = 2 * member + 1, right = left + 1;
    held[member] = copy(members[member]);
    const View target = view(held[member]);
    right < members.size() ? add(type, target, {target, of(left), of(right)})
                           : add(type, target, {target, of(left)});
    held[left].clear();
    if (right < members.size()) held[right].clear();
  }
  return std::move(held[0]);
}

Bytes parts_of_all(std::span<const ConstView> members, DType type) {
  Bytes all(members[0].size());
  for (std::size_t member = 0; member < members.size(); ++member) {
    const Range range = part_of(all.size(), type, members.size(), member);
    if (range.size > 0)
      std::memcpy(all.data() + range.begin, members[member].data() + range.begin, range.size);
  }
  return all;
}

Bytes first_of_all(std::span<const ConstView> members, DType) { return copy(members[0]); }

}  // namespace taxon::sim
