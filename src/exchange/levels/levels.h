#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exchange/extensions.h"
#include "plan/plan.h"

namespace taxon::exchange {

/// A run of elements on its way through all levels.
struct BucketTransfer {
  std::uint32_t unit = 0;
  std::uint16_t lane = 0;
  Range range;
  const std::vector<LevelAlgorithms>* rows = nullptr;  // by level
  std::int64_t round = 0;                              // see LevelTransfer
  const SufficientFactors* factors = nullptr;          // contributions to the first level, see LevelTransfer
  const tensor::Arena* factor_arena = nullptr;
  bool lasts = true;
  std::optional<std::int64_t> meeting = {};
  const comm::Precedence* precedence = nullptr;
};

/// The levels of an exchange, from the inside outward: what one level's owners hold is what the next level
/// sums. The same interface again, so two levels look like one from above: dense inside a node and something
/// else across nodes is two rows of a plan, not an algorithm. Units that are in flight together are at
/// different levels at one time, which is how the levels' links are pipelined.
class Levels {
 public:
  /// `all` is the group of all ranks and outlives the levels. `shape.node`: consecutive ranks of a node,
  /// which divides their number; 0 if no level asks. `seed`: the plan's.
  struct Setup {
    int node = 0;
    std::uint64_t seed = 0;
    int servers = 0;  // dedicated: the last ranks
    Extensions own = {};
    EventLog log = {};
  };
  Levels(comm::Communicator& all, const std::vector<plan::LevelPlan>& plan, const Setup& shape);

  /// Collective, first: the groups learn who shares memory.
  task::Task<void> establish();
  /// Collective: makes a region known to the members of every level, for collectives in mapped memory.
  task::Task<void> share(const net::Region& region);

  std::size_t size() const { return levels_.size(); }
  comm::Communicator& group(std::size_t level) const { return *levels_[level].group; }
  /// The part of a range that reaches a level: what the ones inside it own.
  Range reaching(std::size_t level, Range range) const;

  /// True if some owner has values that others lack: the same on every rank.
  bool spreads() const;
  /// True if every rank gets the sum of all values as they are: no owners, no codecs. Any part of a bucket
  /// may then be reduced by itself.
  bool are_whole() const;
  Range owned(Range range) const;
  /// Returns how many contributions the sum is worth.
  task::Task<double> reduce(BucketTransfer transfer, const tensor::Arena& values);
  task::Task<void> spread(BucketTransfer transfer, const tensor::Arena& values);
  task::Task<double> total(double mine, std::uint16_t lane);

  /// What this rank keeps from step to step, named by level: "level 0 errors".
  void prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots = {});
  std::vector<StateArena> state() const;
  /// What a level's codec did so far; null without one.
  const CodecWork* codec_work(std::size_t level) const { return levels_[level].topology->codec_work(); }
  /// How its values come and go; empty where collectives' rows tell.
  std::string paths(std::size_t level) const;

  // For ranks that don't keep step, see Asynchronous.
  void begin_turn();
  void weigh(std::int64_t samples, std::int64_t mean_over);
  std::int64_t turn() const;
  void set_turn(std::int64_t turn);
  task::Task<void> serve(std::vector<Range> units, const tensor::Arena* values, task::Scope* listeners);
  bool is_passive() const;
  task::Task<void> pause();
  task::Task<void> close(std::vector<Range> units, const tensor::Arena* values);

 private:
  struct Level {
    std::unique_ptr<comm::Communicator> own;  // null: the group of all ranks
    comm::Communicator* group = nullptr;
    const TopologyRow* row = nullptr;
    std::unique_ptr<Topology> topology;
  };
  std::vector<Level> levels_;
  std::vector<Asynchronous*> asynchronous_;  // those that have something of it
};

/// Members of a level's group, for a rank of `world` ranks in nodes of `node`.
std::vector<Rank> members_of(plan::LevelGroup group, Rank rank, int world, int node);
/// The levels that sum gradients: all but the one where replicas meet, if there is one.
std::vector<plan::LevelPlan> summing_levels(const std::vector<plan::LevelPlan>& levels);
/// The level where replicas meet; none if they are always equal.
std::vector<plan::LevelPlan> meeting_level(const std::vector<plan::LevelPlan>& levels);
/// The level that servers own; null if there is none.
const plan::LevelPlan* served_level(const std::vector<plan::LevelPlan>& levels);
/// True if every rank has the same weights after every step.
bool replicas_are_equal(const std::vector<plan::LevelPlan>& levels);
/// True if no worker is ever a step ahead of another, or behind. `own`: topologies beside those of the table.
bool workers_keep_step(const std::vector<plan::LevelPlan>& levels, const Extensions& own = {});
/// Where ranks keep their parts of the parameters alone: how many segments of the model are gathered ahead of
/// the one that is computed. None: every rank has all parameters. `own`: as above.
std::optional<int> gathered_ahead(const std::vector<plan::LevelPlan>& levels, const Extensions& own = {});
/// False where workers run ahead without limit, and only the count of all samples says how far training is.
bool workers_are_bounded(const std::vector<plan::LevelPlan>& levels, const Extensions& own = {});
/// The ranks whose loss the others survive: those that only work, where servers of their own hold the weights
/// and nobody waits for all. Not rank 0, which counts for all.
std::vector<Rank> expendable_ranks(const plan::Plan& plan, int world_size, const Extensions& own = {});
/// True if a level of the plan needs to know the nodes.
bool asks_for_nodes(const std::vector<plan::LevelPlan>& levels);

}  // namespace taxon::exchange
