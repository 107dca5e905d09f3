#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "exchange/channel/buffer_pool.h"
#include "exchange/channel/channel.h"
#include "exchange/levels/topology.h"
#include "exchange/replay/replay_gate.h"

namespace taxon::exchange {

/// Pairwise averaging without a common step (AD-PSGD: Lian, Zhang, Zhang, Liu, ICML 2018). Members with an
/// odd position are active: in each turn one averages what it has with one random passive member, which takes
/// the mean too. The others are passive: they answer at any time, beside their own steps, out of a copy of
/// their values; whatever came meanwhile and their own way are added up when their turn comes. Nobody waits
/// for anybody but an active member for one answer, so there is no circle to close. An average of a pair
/// leaves the sum over all members as it is, element by element.
class Pairwise final : public Topology, public Asynchronous {
 public:
  Pairwise(comm::Communicator& group, TopologyContext context);

  Range owned(Range range) const override { return range; }
  /// REQUIRES: serve() was called. Active: the average with a partner. Passive: the way since the last
  /// spread() goes into what it answers with.
  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override;
  /// Passive: what it answers with by now. Active: nothing.
  task::Task<void> spread(LevelTransfer transfer, const tensor::Arena& values) override;
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }
  Asynchronous* asynchronous() override { return this; }

  task::Task<void> serve(std::vector<Range> units, const tensor::Arena* values,
                         task::Scope* listeners) override;
  bool is_passive() const override { return passive(group_.rank()); }
  task::Task<void> pause() override;
  task::Task<void> close(std::vector<Range>, const tensor::Arena*) override { return tell(Kind::Close); }

  /// What an active member says ahead of its values. Its heads to one partner are numbered through.
  enum class Kind : std::int64_t { Contribution, Pause, Close };
  using Head = std::array<std::int64_t, 2>;  // kind, unit

 private:
  struct Held {           // of a passive member, one for each unit
    Range range;          // of the members' values
    tensor::Arena now;    // what it answers with
    tensor::Arena taken;  // what this member had when it last took that over
    BufferPool unused;    // for what comes
    std::unique_ptr<ReplayGate> turns;
  };
  static bool passive(int member) { return member % 2 == 0; }
  int actives() const { return group_.size() / 2; }
  int passives() const { return group_.size() - actives(); }
  int partner_at(std::int64_t round) const;
  task::Task<void> average_with_partner(LevelTransfer transfer, const tensor::Arena* values);
  task::Task<void> receive(int member);
  task::Task<void> answer(int member, std::uint32_t use, Held* held, std::uint32_t unit);
  task::Task<void> tell(Kind kind);
  task::Task<void> run(tensor::Kernel kernel);
  task::Task<void> act(const Held* held, AsyncEvent event, tensor::Kernel kernel);
  bool all_paused() const;

  comm::Communicator& group_;
  const std::uint64_t seed_;
  const EventLog log_;
  std::map<int, std::uint32_t> uses_;  // active: heads sent, by partner
  std::vector<Held> held_;             // by unit
  task::Scope* listeners_ = nullptr;
  std::map<int, std::int64_t> paused_;  // passive: how often, by active member
  std::int64_t pauses_ = 0;             // this member's
  std::unique_ptr<task::Event> quiet_;
};

/// The unit of heads: none of a bucket.
inline constexpr std::uint32_t kPairsUnit = 0x40000011;

}  // namespace taxon::exchange
