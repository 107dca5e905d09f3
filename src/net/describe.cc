#include "net/describe.h"

#include <fmt/format.h>

namespace taxon::net {

std::string describe_operation(const Tag& tag) {
  constexpr const char* kNames[] = {"user message",   "barrier",        "broadcast",  "reduce",
                                    "reduce_scatter", "all_gather",     "all_reduce", "share_regions",
                                    "server",         "tensor channel", "all_to_all"};
  auto index = static_cast<std::size_t>(tag.operation);
  return index < std::size(kNames) ? kNames[index] : fmt::format("operation {}", index);
}

std::string describe_tag(const Tag& tag) {
  return fmt::format("unit {}, use {}, round {} (group {:#x}, lane {})", tag.unit, tag.sequence, tag.round,
                     tag.group, tag.lane);
}

std::string describe_subject(const Tag& tag, const task::PendingOps& waits) {
  const bool of_users = tag.operation == Operation::User && tag.unit < kFirstReservedUnit;
  const bool named =
      !of_users && tag.operation != Operation::ShareRegions && tag.operation != Operation::Tensor;
  std::string name = named ? waits.name_of(tag.unit, tag.sequence) : "";
  return name.empty() ? describe_tag(tag) : fmt::format("{}, round {}", name, tag.round);
}

}  // namespace taxon::net
