#include "exchange/levels/levels.h"

#include <algorithm>

namespace taxon::exchange {

bool asks_for_nodes(const std::vector<plan::LevelPlan>& levels) {
  return std::any_of(levels.begin(), levels.end(),
                     [](const plan::LevelPlan& level) { return level.group != plan::LevelGroup::Data; });
}

std::vector<plan::LevelPlan> summing_levels(const std::vector<plan::LevelPlan>& levels) {
  std::vector<plan::LevelPlan> summing;
  std::copy_if(levels.begin(), levels.end(), std::back_inserter(summing),
               [](const plan::LevelPlan& level) { return level.rule == "sum"; });
  return summing;
}

std::vector<plan::LevelPlan> meeting_level(const std::vector<plan::LevelPlan>& levels) {
  std::vector<plan::LevelPlan> meeting;
  std::copy_if(levels.begin(), levels.end(), std::back_inserter(meeting),
               [](const plan::LevelPlan& level) { return level.rule != "sum"; });
  return meeting;
}

const plan::LevelPlan* served_level(const std::vector<plan::LevelPlan>& levels) {
  auto found = std::find_if(levels.begin(), levels.end(), [](const plan::LevelPlan& level) {
    return sum_at(level) == plan::SumAt::Servers;
  });
  return found == levels.end() ? nullptr : &*found;
}

bool replicas_are_equal(const std::vector<plan::LevelPlan>& levels) {
  return meeting_level(levels).empty() && !served_level(levels);
}

bool workers_keep_step(const std::vector<plan::LevelPlan>& levels, const Extensions& own) {
  return std::all_of(levels.begin(), levels.end(), [&](const plan::LevelPlan& level) {
    return find_topology(level.topology, own.topologies).scheduling(level, own) == Scheduling::InStep;
  });
}

std::optional<int> gathered_ahead(const std::vector<plan::LevelPlan>& levels, const Extensions& own) {
  std::optional<int> ahead;
  for (const plan::LevelPlan& level : levels)
    if (const auto asked = find_topology(level.topology, own.topologies).gathered_ahead; asked)
      ahead = std::max(ahead, asked(level));
  return ahead;
}

bool workers_are_bounded(const std::vector<plan::LevelPlan>& levels, const Extensions& own) {
  return std::none_of(levels.begin(), levels.end(), [&](const plan::LevelPlan& level) {
    return find_topology(level.topology, own.topologies).scheduling(level, own) == Scheduling::Free;
  });
}

std::vector<Rank> expendable_ranks(const plan::Plan& plan, int world_size, const Extensions& own) {
  std::vector<Rank> expendable;
  if (plan.mesh.servers == 0 || workers_keep_step(plan.exchange.levels, own)) return expendable;
  for (int rank = 1; rank < plan::workers(plan, world_size); ++rank) expendable.emplace_back(rank);
  return expendable;
}

std::vector<Rank> members_of(plan::LevelGroup group, Rank rank, int world, int node) {
  struct Row {  // of each group, in the order of the enum
    int (*first)(int rank, int node);
    int (*stride)(int node);
    int (*count)(int world, int node);
  };
  static constexpr Row kGroups[] = {
      {[](int, int) { return 0; }, [](int) { return 1; }, [](int world, int) { return world; }},
      {[](int rank, int node) { return rank - rank % node; }, [](int) { return 1; },
       [](int, int node) { return node; }},
      {[](int rank, int node) { return rank % node; }, [](int node) { return node; },
       [](int world, int node) { return world / node; }},
  };
  const Row& row = kGroups[static_cast<std::size_t>(group)];
  std::vector<Rank> members;
  for (int i = 0; i < row.count(world, node); ++i)
    members.emplace_back(row.first(rank.value(), node) + i * row.stride(node));
  return members;
}

Levels::Levels(comm::Communicator& all, const std::vector<plan::LevelPlan>& plan, const Setup& shape) {
  comm::Runtime& runtime = all.runtime();
  for (const plan::LevelPlan& row : plan) {
    Level level;
    if (row.group != plan::LevelGroup::Data)
      level.own = std::make_unique<comm::Communicator>(
          runtime, std::string(plan::to_string(row.group)),
          members_of(row.group, runtime.rank(), runtime.world_size(), shape.node));
    level.group = level.own ? level.own.get() : &all;
    level.row = &find_topology(row.topology, shape.own.topologies);
    level.topology = level.row->make(*level.group, {row, shape.seed, shape.servers, shape.own.graphs,
                                                    shape.own.codecs, shape.log, shape.own.collectives});
    if (Asynchronous* asynchronous = level.topology->asynchronous()) asynchronous_.push_back(asynchronous);
    levels_.push_back(std::move(level));
  }
}

task::Task<void> Levels::establish() {
  for (Level& level : levels_)
    if (level.own) {
      co_await level.own->establish();
    }
}

task::Task<void> Levels::share(const net::Region& region) {
  for (Level& level : levels_)
    if (level.group->size() > 1) {
      co_await level.group->share(region);
    }
}

bool Levels::spreads() const {
  return std::any_of(levels_.begin(), levels_.end(),
                     [](const Level& level) { return level.topology->spreads(); });
}

bool Levels::are_whole() const {
  return std::all_of(levels_.begin(), levels_.end(), [](const Level& level) {
    return level.row->sum == plan::SumAt::Everyone && !level.topology->codec_work();
  });
}

Range Levels::owned(Range range) const { return reaching(levels_.size(), range); }

Range Levels::reaching(std::size_t level, Range range) const {
  for (std::size_t l = 0; l < level; ++l) range = levels_[l].topology->owned(range);
  return range;
}

task::Task<double> Levels::reduce(BucketTransfer bucket, const tensor::Arena& values) {
  LevelTransfer transfer{bucket.unit,    bucket.lane,      bucket.range,        {},
                         bucket.round,   bucket.factors,   bucket.factor_arena, bucket.lasts,
                         bucket.meeting, bucket.precedence};
  double weight = 1;
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    transfer.rows = (*bucket.rows)[l];
    weight *= co_await levels_[l].topology->reduce(transfer, values);
    transfer.factors = nullptr;  // what goes on is a sum
    transfer.range = levels_[l].topology->owned(transfer.range);
  }
  co_return weight;
}

task::Task<void> Levels::spread(BucketTransfer bucket, const tensor::Arena& values) {
  std::vector<Range> ranges{bucket.range};
  for (const Level& level : levels_) ranges.push_back(level.topology->owned(ranges.back()));
  for (std::size_t l = levels_.size(); l-- > 0;) {
    LevelTransfer transfer{bucket.unit, bucket.lane, ranges[l], (*bucket.rows)[l], bucket.round};
    transfer.meeting = bucket.meeting;
    transfer.precedence = bucket.precedence;
    co_await levels_[l].topology->spread(transfer, values);
  }
}

void Levels::prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) {
  for (Level& level : levels_)
    if (Stateful* stateful = level.topology->stateful()) stateful->prepare(like, slots);
}

std::vector<StateArena> Levels::state() const {
  std::vector<StateArena> all;
  for (std::size_t l = 0; l < levels_.size(); ++l)
    if (const Stateful* stateful = levels_[l].topology->stateful())
      for (const StateArena& kept : stateful->state())
        all.push_back({"level " + std::to_string(l) + " " + kept.name, kept.values, kept.agreed});
  return all;
}

std::string Levels::paths(std::size_t level) const {
  const Asynchronous* asynchronous = levels_[level].topology->asynchronous();
  return asynchronous ? asynchronous->paths() : std::string();
}

void Levels::begin_turn() {
  for (Asynchronous* level : asynchronous_) level->begin_turn();
}

void Levels::weigh(std::int64_t samples, std::int64_t mean_over) {
  for (Asynchronous* level : asynchronous_) level->weigh(samples, mean_over);
}

std::int64_t Levels::turn() const {
  std::int64_t turn = 0;
  for (const Asynchronous* level : asynchronous_) turn = std::max(turn, level->turn());
  return turn;
}

void Levels::set_turn(std::int64_t turn) {
  for (Asynchronous* level : asynchronous_) level->set_turn(turn);
}

task::Task<void> Levels::serve(std::vector<Range> units, const tensor::Arena* values,
                               task::Scope* listeners) {
  for (Asynchronous* level : asynchronous_) {
    co_await level->serve(units, values, listeners);
  }
}

bool Levels::is_passive() const {
  return std::any_of(asynchronous_.begin(), asynchronous_.end(),
                     [](const Asynchronous* level) { return level->is_passive(); });
}

task::Task<void> Levels::pause() {
  for (Asynchronous* level : asynchronous_) {
    co_await level->pause();
  }
}

task::Task<void> Levels::close(std::vector<Range> units, const tensor::Arena* values) {
  for (Level& level : levels_) {
    if (Asynchronous* asynchronous = level.topology->asynchronous()) {
      co_await asynchronous->close(units, values);
    }
    for (Range& unit : units) unit = level.topology->owned(unit);
  }
}

task::Task<double> Levels::total(double mine, std::uint16_t lane) {
  for (Level& level : levels_) {
    mine = co_await level.topology->total(mine, lane);
  }
  co_return mine;
}

}  // namespace taxon::exchange
