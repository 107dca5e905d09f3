#include "codec/codec.h"
#include "exchange/compression/coder.h"
#include "exchange/compression/selected_entries.h"
#include "exchange/extensions.h"
#include "exchange/server/server_client.h"

namespace taxon::exchange {
namespace {

std::unique_ptr<Topology> make(comm::Communicator& group, TopologyContext context) {
  return std::make_unique<ServerClient>(group, context);
}

/// There and back, except what a server hands to itself. Heads are counted, control is not.
double sent(const plan::LevelPlan& plan, std::size_t bytes, const LevelShape& shape, const Extensions& rows) {
  const Roles roles{shape.size, shape.servers};
  const double head = sizeof(ServerWire::Head);
  const double own = shape.servers > 0 ? 0 : 1;  // a worker's servers that are itself
  const double part = static_cast<double>(bytes) / roles.servers();
  const bool dense = leaves_dense(plan.codec, bytes / sizeof(float));
  const auto count = static_cast<std::size_t>(part / sizeof(float));
  auto codec_of = [&](const std::string& name) {
    return codec::find_codec(name, rows.codecs).make(plan.codec.options);
  };
  auto on_the_way = [&](const std::string& name) {
    if (name == "none" || dense) return part + head;
    return static_cast<double>(codec_of(name)->wire_bytes(0, count)) + head;
  };
  const bool asked = plan.codec.name != "none" && !dense && codec_of(plan.codec.name)->coordinate_query();
  const double there_and_back =
      asked ? static_cast<double>(asked_bytes(*codec_of(plan.codec.name), count)) + 2 * head
            : on_the_way(plan.codec.name) + on_the_way(plan.codec.answer);
  return roles.workers() * (roles.servers() - own) * there_and_back / shape.size;
}

Scheduling scheduling(const plan::LevelPlan& level, const Extensions& own) {
  return find_consistency(level.consistency, own.consistencies).bounds_of(level).scheduling();
}

}  // namespace

/// The parameter server: those that serve own parts, and update them.
TopologyRow servers() {
  return {.name = "servers",
          .make = make,
          .reduce = net::Operation::User,
          .spread = net::Operation::User,
          .owned = [](std::size_t, int) { return std::size_t{0}; },
          .sent = sent,
          .scheduling = scheduling,
          .sum = plan::SumAt::Servers,
          .sentence = "those that serve own parts, and update them (parameter server)"};
}

}  // namespace taxon::exchange
