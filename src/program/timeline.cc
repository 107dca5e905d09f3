#include "program/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/check.h"
#include "program/check.h"

namespace taxon::program {
namespace {

double seconds_of(const Action& action, const StageCost& cost) {
  switch (action.kind) {
    case ActionKind::Forward:
      return cost.forward;
    case ActionKind::Backward:
      return cost.backward_input + cost.backward_weight;
    case ActionKind::BackwardInput:
      return cost.backward_input;
    case ActionKind::BackwardWeight:
      return cost.backward_weight;
    case ActionKind::Update:
      return cost.update;
    default:
      return 0;
  }
}

class Evaluation {
 public:
  Evaluation(const Program& program, std::span<const StageCost> costs)
      : program_(program), costs_(costs), memory_(stage_memory(program)), ranks_(program.ranks.size()) {}

  Timeline run() {
    // Ranks take turns; each goes as far as what it waits for is known.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (step(rank)) moved = true;
    }
    Timeline all;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      TAXON_CHECK(ranks_[rank].next == program_.ranks[rank].size(), "rank ", rank, " never ends");
      all.seconds = std::max({all.seconds, ranks_[rank].now, ranks_[rank].exchanged});
      all.spans.insert(all.spans.end(), ranks_[rank].spans.begin(), ranks_[rank].spans.end());
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      all.ranks.push_back(
          {ranks_[rank].busy, all.seconds - ranks_[rank].busy, peak_bytes(static_cast<int>(rank))});
    return all;
  }

 private:
  struct RankState {
    std::size_t next = 0;
    double now = 0, busy = 0;
    double exchanged = 0;  // end of its last exchange
    std::vector<Span> spans;
  };

  const StageCost& cost(int stage) const { return costs_[static_cast<std::size_t>(stage)]; }

  bool step(std::size_t index) {
    RankState& rank = ranks_[index];
    if (rank.next == program_.ranks[index].size()) return false;
    const Action& action = program_.ranks[index][rank.next];
    if (receives(action.kind)) {
      const auto sent = arrivals_.find(key(counterpart(action)));
      if (sent == arrivals_.end()) return false;
      rank.now = std::max(rank.now, sent->second);
    } else if (sends(action.kind)) {
      send(static_cast<int>(index), action, rank.now);
    } else if (action.kind == ActionKind::Exchange) {
      const double begin = std::max(rank.now, rank.exchanged);
      rank.exchanged = begin + cost(action.stage).exchange;
      exchange_ends_[action.stage] = rank.exchanged;
      rank.spans.push_back({static_cast<int>(index), action, begin, rank.exchanged});
    } else {
      if (action.kind == ActionKind::Update) rank.now = std::max(rank.now, exchange_ends_[action.stage]);
      const double begin = rank.now, seconds = seconds_of(action, cost(action.stage));
      rank.now += seconds;
      rank.busy += seconds;
      rank.spans.push_back({static_cast<int>(index), action, begin, rank.now});
    }
    ++rank.next;
    return true;
  }

  static std::tuple<ActionKind, int, int> key(const Action& action) {
    return {action.kind, action.stage, action.micro};
  }

  void send(int from, const Action& action, double now) {
    const bool activation = action.kind == ActionKind::SendActivation;
    const int to = program_.rank_at(counterpart(action).stage);
    double& free = ways_[{action.kind, from, to}];
    free = std::max(free, now) + cost(activation ? action.stage : action.stage - 1).transfer;
    arrivals_[key(action)] = free;
  }

  /// Of a rank: what is kept for each pass, and versions as many as are kept at most.
  double peak_bytes(int rank) const {
    double kept = 0, most = 0, always = 0;
    for (const Action& action : program_.ranks[static_cast<std::size_t>(rank)]) {
      if (action.kind == ActionKind::Forward) kept += cost(action.stage).activation_bytes;
      most = std::max(most, kept);
      if (makes_weight_gradient(action.kind)) kept -= cost(action.stage).activation_bytes;
    }
    for (int stage = 0; stage < program_.stages; ++stage)
      if (program_.rank_at(stage) == rank)
        always +=
            weight_copies(memory_[static_cast<std::size_t>(stage)].versions) * cost(stage).weight_bytes +
            cost(stage).state_bytes;
    return most + always;
  }

  const Program& program_;
  std::span<const StageCost> costs_;
  const std::vector<StageMemory> memory_;
  std::vector<RankState> ranks_;
  std::map<std::tuple<ActionKind, int, int>, double> arrivals_;  // of what was sent
  std::map<std::tuple<ActionKind, int, int>, double> ways_;      // free from, by kind and ends
  std::map<int, double> exchange_ends_;                          // by stage
};

char letter(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return 'F';
    case ActionKind::Backward:
      return 'B';
    case ActionKind::BackwardInput:
      return 'I';
    case ActionKind::BackwardWeight:
      return 'W';
    default:
      return 0;  // not drawn
  }
}

std::string label(const Program& program, const Action& action) {
  const int chunk = action.stage / static_cast<int>(program.ranks.size());
  std::string text = fmt::format("{}{}", letter(action.kind), action.micro);
  if (chunk == 1) return text + "'";
  if (chunk == 2) return text + "\"";
  return chunk == 0 ? text : fmt::format("{}:{}", text, chunk);
}

}  // namespace

double Timeline::bubble() const {
  double idle = 0;
  for (const RankUse& rank : ranks) idle += rank.idle;
  return seconds > 0 ? idle / (seconds * static_cast<double>(ranks.size())) : 0;
}

Timeline evaluate(const Program& program, std::span<const StageCost> costs) {
  TAXON_CHECK(static_cast<int>(costs.size()) == program.stages, "costs=", costs.size());
  return Evaluation(program, costs).run();
}

std::string draw(const Program& program, const Timeline& timeline) {
  std::size_t width = 1;
  for (const Span& span : timeline.spans)
    if (letter(span.action.kind) != 0) width = std::max(width, label(program, span.action).size());
  const auto columns = static_cast<std::size_t>(std::llround(timeline.seconds));
  std::vector<std::vector<std::string>> cells(program.ranks.size(), std::vector<std::string>(columns, "."));
  for (const Span& span : timeline.spans) {
    if (letter(span.action.kind) == 0) continue;
    const auto begin = static_cast<std::size_t>(std::llround(span.begin));
    const auto end = static_cast<std::size_t>(std::llround(span.end));
    for (std::size_t at = begin; at < end; ++at)
      cells[static_cast<std::size_t>(span.rank)][at] =
          at == begin ? label(program, span.action) : std::string(width, '-');
  }
  std::string text;
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    std::string line = fmt::format("rank {:<{}} ", rank, fmt::formatted_size("{}", cells.size() - 1));
    for (const std::string& cell : cells[rank]) line += fmt::format(" {:<{}}", cell, width);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string draw(const Program& program) {
  const std::vector<StageCost> costs(static_cast<std::size_t>(program.stages));
  return draw(program, evaluate(program, costs));
}

}  // namespace taxon::program
