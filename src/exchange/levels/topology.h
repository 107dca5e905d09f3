#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "codec/codec.h"
#include "comm/collectives.h"
#include "exchange/replay/async_event.h"
#include "exchange/topologies/graph.h"
#include "plan/catalogue.h"
#include "task/scope.h"
#include "tensor/arena.h"

namespace taxon::exchange {

struct CodecWork;

/// The algorithms that serve one unit at one level; null where the level has one member, or nothing to do.
struct LevelAlgorithms {
  const comm::CollectiveRow* reduce = nullptr;
  const comm::CollectiveRow* spread = nullptr;
};

/// Contributions that are left as sufficient factors: the members' blocks one after the other in an arena,
/// each of a matrix D of rows x outputs and a matrix X of rows x inputs, row after row. A contribution is D^T
/// X.
struct SufficientFactors {
  std::size_t members = 1, rows = 0, outputs = 0, inputs = 0;
  Range all, own;  // elements of all blocks, and of this member's
  std::size_t block() const { return rows * (outputs + inputs); }
};

/// A run of elements of an arena on its way through one level.
struct LevelTransfer {
  std::uint32_t unit = 0;
  std::uint16_t lane = 0;  // exchanges of one unit that are in flight together differ in it
  Range range;             // elements of whichever arena it travels in
  LevelAlgorithms rows;
  std::int64_t round = 0;  // the step
  // What to sum if this member's contribution does not lie in the range.
  const SufficientFactors* factors = nullptr;
  const tensor::Arena* factor_arena = nullptr;
  bool lasts = true;  // false: what was reduced is others' memory as soon as reduce() is over
  std::optional<std::int64_t> meeting = {};  // of replicas: how many there were before; none: a step's sum
  const comm::Precedence* precedence = nullptr;  // among what travels together
  /// What comes round after so many exchanges counts these: steps that meetings begin at have a divisor in
  /// common.
  std::int64_t turn() const { return meeting.value_or(round); }
};

/// Memory of a member's own that lasts from step to step, by name: of the layout of the values that it
/// reduces.
struct StateArena {
  std::string name;
  const tensor::Arena* values;
  bool agreed = false;  // not its own, but equal everywhere: it begins as the weights that all attend with
};

/// Something with memory that is a part of the training's state.
class Stateful {
 public:
  virtual ~Stateful() = default;
  /// None before prepare(); where others attend to make it, before Asynchronous::serve().
  virtual std::vector<StateArena> state() const = 0;
  /// Makes room for it, zeroed, beside an arena that will be reduced, whose tensors are `slots`; if there are
  /// none the arena is one vector.
  virtual void prepare(const tensor::Arena&, std::span<const tensor::Slot>) {}
};

/// What a member does beside its steps, or out of step with the others. A member that has something of this
/// overrides that; the rest is what members do that keep step.
class Asynchronous {
 public:
  virtual ~Asynchronous() = default;
  /// A step, or a meeting, begins. Contributions of the turn before may still be on their way out.
  virtual void begin_turn() {}
  /// From now on contributions belong to the turn that began last. What they are worth: samples, and how many
  /// the gradient is the mean over. REQUIRES: the turn before is over.
  virtual void weigh(std::int64_t, std::int64_t) {}
  /// How many turns were before this one; more, if the others are so far ahead that this member had to jump.
  virtual std::int64_t turn() const { return 0; }
  /// So many turns were before the next.
  virtual void set_turn(std::int64_t) {}
  /// `units` of `values`, one for each bucket, are what this member begins with. What answers others beside
  /// its own turns runs in `listeners` until close() has been called everywhere.
  virtual task::Task<void> serve(std::vector<Range>, const tensor::Arena*, task::Scope*) { co_return; }
  /// True if others change what this member has between its turns; its own turns then wait for nobody.
  virtual bool is_passive() const { return false; }
  /// The others go on without this member until it contributes again. Returns when they know.
  virtual task::Task<void> pause() { co_return; }
  /// For good. `values`: an arena in which `units` lie; what it holds does not matter.
  virtual task::Task<void> close(std::vector<Range>, const tensor::Arena*) { co_return; }
  /// How values come and go, in words for the log.
  virtual std::string paths() const { return {}; }
};

/// Where contributions of one level meet: two halves, with the next level or the update between them at
/// whoever owns the range. Collective over the level's group; arenas outlive the tasks.
class Topology {
 public:
  using StateArena = exchange::StateArena;
  virtual ~Topology() = default;
  /// The part of a range that this member owns: it gets the sum there and hands it on or updates it. Depends
  /// on the range's size alone, apart from where it begins.
  virtual Range owned(Range range) const = 0;
  /// Afterwards owned(transfer.range) of `values` holds the sum over the group, with the same bits wherever
  /// it is owned; the rest of the range is undefined. Returns how many contributions that sum is worth, each
  /// member's being worth one: what the mean divides by.
  virtual task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) = 0;
  /// Afterwards every member has the owners' values of the range in `values`.
  virtual task::Task<void> spread(LevelTransfer transfer, const tensor::Arena& values) = 0;
  /// The sum over the owners of `mine`, which each has for its part and equally wherever one part is owned.
  /// The same bits at every member.
  virtual task::Task<double> total(double mine, std::uint16_t lane) = 0;

  /// True if some owner has values that others lack: the same at every member.
  virtual bool spreads() const { return false; }
  /// What its codec did so far; null without one.
  virtual const CodecWork* codec_work() const { return nullptr; }
  /// The same object as what else it is; null: nothing of it lasts, or runs beside the steps.
  virtual Stateful* stateful() { return nullptr; }
  virtual Asynchronous* asynchronous() { return nullptr; }
};

/// The unit of total()'s messages: none of a bucket.
inline constexpr std::uint32_t kTotalUnit = 0x40000003;

/// What a topology is made from; outlives it.
struct TopologyContext {
  const plan::LevelPlan& level;
  std::uint64_t seed = 0;                 // of the plan
  int servers = 0;                        // dedicated ones among the members, the last; 0: all serve
  std::span<const GraphRow> graphs = {};  // beside those of the table
  std::span<const codec::CodecRow> codecs = {};
  EventLog log = {};
  std::span<const comm::CollectiveRow> collectives = {};
};

/// What a level's group is like, on every rank.
struct LevelShape {
  int size = 1;
  bool shares_memory = false;
  int servers = 0;  // dedicated ones among the members; 0: all serve where somebody does
};

struct Extensions;  // exchange/extensions.h

using plan::Scheduling;

/// A topology, described: whatever else needs to know of it asks its row.
struct TopologyRow {
  std::string_view name;
  std::unique_ptr<Topology> (*make)(comm::Communicator& group, TopologyContext context);
  net::Operation reduce;  // the collective whose row serves it; User: it sends its messages itself
  net::Operation spread;  // User: owners have nothing to spread
  /// Elements of `count` that a member of a group of `size` owns, at most.
  std::size_t (*owned)(std::size_t count, int size);
  /// Bytes that leave a member in a turn for `bytes`, the members' mean; null where collectives' rows tell.
  double (*sent)(const plan::LevelPlan& plan, std::size_t bytes, const LevelShape& shape,
                 const Extensions& own);
  Scheduling (*scheduling)(const plan::LevelPlan& plan, const Extensions& own) =
      [](const plan::LevelPlan&, const Extensions&) { return Scheduling::InStep; };
  plan::SumAt sum = plan::SumAt::Nowhere;  // decides which codecs and rules make sense there
  bool has_graph = false;                  // the level's graph says who talks to whom
  std::string_view sentence = {};
  // Its words on the axes; see plan::Catalogue.
  std::string_view optimisation = {}, mixing = {};
  std::vector<plan::OptionKey> (*options)() = nullptr;  // keys of its own in a level's section
  std::span<const plan::LevelRule> rules = {};          // what makes no sense with it
  /// Where members keep their parts of the parameters alone: how many segments of the model are gathered
  /// ahead of the one that is computed. None: members have all. Null: always none.
  std::optional<int> (*gathered_ahead)(const plan::LevelPlan& plan) = nullptr;
};
/// One file each in exchange/topologies, and that of servers in exchange/server. exchange/levels/topology.cc.
std::span<const TopologyRow> topology_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const TopologyRow& find_topology(std::string_view name, std::span<const TopologyRow> own = {});
/// Of the level's topology; Nowhere for one that is in neither table.
plan::SumAt sum_at(const plan::LevelPlan& level, std::span<const TopologyRow> own = {});
/// Every topology with the collectives that serve both halves of it, for plan::check_plan().
std::vector<plan::Catalogue::Topology> known_topologies(
    std::span<const TopologyRow> own = {}, std::span<const comm::CollectiveRow> own_collectives = {});

}  // namespace taxon::exchange
