#include "exchange/levels/topology.h"

#include <bit>

#include "exchange/compression/coder.h"
#include "exchange/compression/selected_entries.h"
#include "exchange/server/server_client.h"
#include "exchange/topologies/adasum.h"
#include "exchange/topologies/all_reduce.h"
#include "exchange/topologies/gossip.h"
#include "exchange/topologies/graph.h"
#include "exchange/topologies/pairwise.h"
#include "exchange/topologies/sharded.h"
#include "exchange/topologies/significant.h"

namespace taxon::exchange {
namespace {

bool exists(net::Operation collective, std::string_view name) {
  for (const comm::CollectiveRow& row : comm::collective_table())
    if (row.collective == collective && row.name == name) return true;
  return false;
}

std::vector<std::string> collectives_of(const TopologyRow& topology) {
  std::vector<std::string> names;
  if (topology.reduce == net::Operation::User) return names;
  for (const comm::CollectiveRow& row : comm::collective_table())
    if (row.collective == topology.reduce &&
        (topology.spread == net::Operation::User || exists(topology.spread, row.name)))
      names.emplace_back(row.name);
  return names;
}

std::size_t everything(std::size_t count, int) { return count; }
std::size_t nothing(std::size_t, int) { return 0; }

/// There and back, except what a server hands to itself. Heads are counted, control is not.
double sent_to_servers(const plan::LevelPlan& plan, std::size_t bytes, const LevelShape& shape) {
  const Roles roles{shape.size, shape.servers};
  const double head = sizeof(ServerWire::Head);
  const double own = shape.servers > 0 ? 0 : 1;  // a worker's servers that are itself
  const double part = static_cast<double>(bytes) / roles.servers();
  auto on_the_way = [&](const std::string& codec) {
    if (codec == "none" || leaves_dense(plan.codec, bytes / sizeof(float))) return part + head;
    const auto count = static_cast<std::size_t>(part / sizeof(float));
    return static_cast<double>(codec::find_codec(codec).make(plan.codec)->wire_bytes(0, count)) + head;
  };
  auto asked = [&] {
    if (plan.codec.name == "none" || leaves_dense(plan.codec, bytes / sizeof(float))) return false;
    return codec::asks(codec::find_codec(plan.codec.name));
  };
  const double there_and_back =
      asked() ? static_cast<double>(asked_bytes(*codec::find_codec(plan.codec.name).make(plan.codec),
                                                static_cast<std::size_t>(part / sizeof(float)))) +
                    2 * head
              : on_the_way(plan.codec.name) + on_the_way(plan.codec.answer);
  return roles.workers() * (roles.servers() - own) * there_and_back / shape.size;
}

/// There and back, begun by every second member.
double sent_in_pairs(const plan::LevelPlan&, std::size_t bytes, const LevelShape& shape) {
  const double active = shape.size / 2;
  return active / shape.size * (2 * static_cast<double>(bytes) + static_cast<double>(sizeof(Pairwise::Head)));
}

/// At most: as if every entry were significant.
double sent_if_significant(const plan::LevelPlan&, std::size_t bytes, const LevelShape& shape) {
  return (shape.size - 1) * static_cast<double>(bytes + sizeof(std::int64_t));
}

Scheduling pace_of_servers(const plan::LevelPlan& level) {
  if (level.staleness < 0) return Scheduling::Free;
  return level.staleness == 0 && level.quorum == 0 && level.apply == 0 ? Scheduling::InStep
                                                                       : Scheduling::Bounded;
}

}  // namespace

std::span<const TopologyRow> topology_table() {
  static constexpr TopologyRow kTopologies[] = {
      {"all_reduce", make_all_reduce, net::Operation::AllReduce, net::Operation::User, everything, nullptr},
      {"sharded", make_sharded, net::Operation::ReduceScatter, net::Operation::AllGather,
       [](std::size_t count, int size) {
         return part({0, count}, static_cast<std::size_t>(size), 0).size;
       },
       nullptr},
      {"adasum", make_adasum, net::Operation::User, net::Operation::User, everything,
       [](const plan::LevelPlan&, std::size_t bytes, const LevelShape& shape) {
         return static_cast<double>(bytes) * std::bit_width(static_cast<unsigned>(shape.size - 1));
       }},
      {"gossip", make_gossip, net::Operation::User, net::Operation::User, everything,
       [](const plan::LevelPlan& plan, std::size_t bytes, const LevelShape& shape) {
         // Every member has as many neighbours as every other, or one of them pauses.
         std::size_t messages = 0;
         for (int member = 0; member < shape.size; ++member)
           messages += find_graph(plan.graph).at(member, shape.size, 0, 0).to.size();
         return static_cast<double>(messages) / shape.size * static_cast<double>(bytes + sizeof(double));
       }},
      {"pairs", make_pairs, net::Operation::User, net::Operation::User, everything, sent_in_pairs,
       [](const plan::LevelPlan&) { return Scheduling::Free; }},
      {"significant", make_significant, net::Operation::User, net::Operation::User, everything,
       sent_if_significant},
      {"servers", make_servers, net::Operation::User, net::Operation::User, nothing, sent_to_servers,
       pace_of_servers},
  };
  return kTopologies;
}

const TopologyRow& find_topology(std::string_view name, std::span<const TopologyRow> own) {
  for (std::span<const TopologyRow> rows : {own, topology_table()})
    for (const TopologyRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no topology is called " + std::string(name));
}

std::vector<plan::KnownNames::Topology> known_topologies(std::span<const TopologyRow> own) {
  std::vector<plan::KnownNames::Topology> known;
  for (std::span<const TopologyRow> rows : {own, topology_table()})
    for (const TopologyRow& topology : rows)
      known.push_back({std::string(topology.name), collectives_of(topology)});
  return known;
}

}  // namespace taxon::exchange
