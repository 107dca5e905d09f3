#include "faults/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "exchange/levels/levels.h"
#include "faults/contributions.h"
#include "plan/mesh.h"

namespace taxon::faults {
namespace {

/// A rank's failure, taken apart.
struct Failure {
  ErrorKind kind = ErrorKind::Internal;
  std::string message;
  std::optional<Rank> rank;
};

Failure take_apart(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.kind(), known.what(), known.context().rank};
  } catch (const std::exception& other) {
    return {ErrorKind::Internal, other.what(), {}};
  }
}

class Check {
 public:
  Check(const plan::Plan& plan, const SimulatedRun& calm, const SimulatedRun& seen)
      : plan_(plan),
        promise_(promise_of(plan)),
        working_(seen.ranks.size() - static_cast<std::size_t>(plan.mesh.servers)),
        calm_(calm),
        seen_(seen) {}

  /// Weights are the calm run's where the plan promises it; whoever ends does so with the same model.
  void replicas() {
    const train::Outcome* first = nullptr;
    for (std::size_t rank = 0; rank < seen_.ranks.size(); ++rank) {
      const Observations& one = seen_.ranks[rank];
      if (rank < working_ && promise_ != Promise::InTheirOrder) steps(rank, one);
      if (!one.outcome) continue;
      const train::Outcome& right =
          promise_ == Promise::InTheirOrder ? *(first ? first : &*one.outcome) : *calm_.ranks[0].outcome;
      first = &right;
      const char* whose = promise_ == Promise::InTheirOrder ? "the first" : "a run without faults";
      if (one.outcome->parameter_hash != right.parameter_hash)
        complain("rank {} ended with other weights than {}", rank, whose);
      if (one.outcome->test.loss != right.test.loss)
        complain("rank {} ended with a test loss of {}, not {}", rank, one.outcome->test.loss,
                 right.test.loss);
    }
  }

  /// A step counts as done on one rank only if all contributed to it: the others have begun it at least.
  void reported_steps() {
    if (promise_ == Promise::InTheirOrder) return;
    for (std::size_t rank = 0; rank < seen_.ranks.size(); ++rank)
      for (std::size_t other = 0; other < working_; ++other) {
        const Observations& far = seen_.ranks[other];
        const std::int64_t begun = far.first_step + static_cast<std::int64_t>(far.weights.size());
        if (seen_.ranks[rank].reported > begun)
          complain("rank {} reported step {} as done, which rank {} never began", rank,
                   seen_.ranks[rank].reported, other);
      }
  }

  /// What servers did with contributions.
  void contributions() {
    const plan::LevelPlan* served = exchange::served_level(plan_.exchange.levels);
    if (!served) return;
    // Nodes that contribute as one; how many, only the run found out if the plan does not say.
    const bool as_nodes = plan_.exchange.levels.size() > 1;
    if (as_nodes && plan_.mesh.node == 0) return;
    const std::size_t node = as_nodes ? static_cast<std::size_t>(plan_.mesh.node) : 1;
    ServerOracle book = bookkeeping_of(*served, static_cast<int>(working_ / node));
    const Ending ending = ending_of(seen_);
    book.complete = ending == Ending::Complete || ending == Ending::Survived;
    for (std::size_t rank = 0; rank < seen_.ranks.size(); ++rank) {
      const exchange::AsyncEvents& events = seen_.ranks[rank].events;
      for (std::string& sentence : check_contributions(static_cast<int>(rank), events, book))
        found.push_back(std::move(sentence));
      if (served->rule != "sum") continue;
      for (const auto& unit : count_contributions(events, book.workers))
        for (std::size_t w = 0; w < unit.size(); ++w)
          handed_in(rank, w * node + rank % node, unit[w], book.complete);
    }
  }

  void complete() {
    for (std::size_t rank = 0; rank < seen_.ranks.size(); ++rank)
      if (!seen_.ranks[rank].outcome && !seen_.report.ranks[rank].killed)
        complain("rank {} failed although nothing was lost: {}", rank,
                 message_of(seen_.report.ranks[rank].error));
  }

  void lost() {
    const Rank culprit = seen_.report.first_culprit.value_or(Rank(-1));
    if (culprit.value() < 0 || !seen_.report.ranks[static_cast<std::size_t>(culprit.value())].killed)
      return complain("rank {} is blamed, which was not killed: {}", culprit.value(),
                      message_of(seen_.report.failure));
    const std::string name = fmt::format("rank {} ", culprit.value());
    for (std::size_t rank = 0; rank < seen_.ranks.size(); ++rank) {
      const sim::RankUse& use = seen_.report.ranks[rank];
      if (!use.error || use.killed) continue;
      const Failure failure = take_apart(use.error);
      if (failure.kind != ErrorKind::PeerLost || failure.rank != culprit ||
          failure.message.find(name) == std::string::npos)
        complain("rank {} does not name the lost rank {}: {}: {}", rank, culprit.value(),
                 taxon::to_string(failure.kind), failure.message);
    }
  }

  /// The report names waiting ranks, operations and units; every rank ends with it.
  void stuck(const FaultSchedule& schedule) {
    const auto& lines = seen_.report.hang->lines;
    if (!schedule.cuts_for_good)
      complain("the run can't finish although every link is whole: {}", fmt::join(lines, " | "));
    auto names_all = [](const std::string& line) {
      int waiting = -1, awaited = -1;
      char operation[64] = "";
      return std::sscanf(line.c_str(), "  rank %d waits for rank %d in %63[^,], ", &waiting, &awaited,
                         operation) == 3 &&
             waiting != awaited;
    };
    if (std::none_of(lines.begin(), lines.end(), names_all))
      complain("the hang report names no pair of ranks with its operation: {}", fmt::join(lines, " | "));
    auto trains = [](const Observations& rank) { return !rank.weights.empty(); };
    // net::describe_tag()'s words for what has no name.
    auto nameless = [](const std::string& line) { return line.find(", unit ") != std::string::npos; };
    if (std::all_of(seen_.ranks.begin(), seen_.ranks.end(), trains) &&
        std::any_of(lines.begin(), lines.end(), nameless))
      complain("the hang report does not name what is waited for: {}", fmt::join(lines, " | "));
    for (std::size_t rank = 0; rank < seen_.ranks.size(); ++rank)
      if (const auto& error = seen_.report.ranks[rank].error;
          error && !seen_.report.ranks[rank].killed && take_apart(error).kind != ErrorKind::Deadline)
        complain("rank {} of a stuck run ended otherwise: {}", rank, message_of(error));
  }

  std::vector<std::string> found;

 private:
  /// The weights that a rank's backward passes read.
  void steps(std::size_t rank, const Observations& one) {
    const bool has_whole = promise_ == Promise::OneModel && plan::ranks_of_replica(plan_.mesh) == 1;
    const std::vector<std::uint64_t>& right = calm_.ranks[has_whole ? 0 : rank].weights;
    for (std::size_t i = 0; i < one.weights.size(); ++i) {
      const std::size_t step = static_cast<std::size_t>(one.first_step) + i;
      if (step < right.size() && one.weights[i] == right[step]) continue;
      return complain("rank {} began step {} with other weights than a run without faults", rank, step + 1);
    }
  }
  /// A server got one contribution for every backward pass of a worker, or is about to.
  void handed_in(std::size_t server, std::size_t worker, std::int64_t got, bool complete) {
    const auto begun = static_cast<std::int64_t>(seen_.ranks[worker].weights.size());
    const bool all_came = complete && !seen_.report.ranks[worker].killed;
    if (got > begun || (all_came && got < begun))
      complain("rank {} as a server got {} contributions of worker {}, who made {}", server, got, worker,
               begun);
  }

  template <class... Args>
  void complain(fmt::format_string<Args...> sentence, Args&&... args) {
    found.push_back(fmt::format(sentence, std::forward<Args>(args)...));
  }
  const plan::Plan& plan_;
  const Promise promise_;
  const std::size_t working_;  // ranks, the first ones
  const SimulatedRun& calm_;
  const SimulatedRun& seen_;
};

}  // namespace

const char* to_string(Ending ending) {
  switch (ending) {
    case Ending::Complete:
      return "complete";
    case Ending::Survived:
      return "survived the loss of a rank";
    case Ending::Lost:
      return "ended by a lost rank";
    case Ending::Stuck:
      return "stuck, and said so";
  }
  return "";
}

Ending ending_of(const SimulatedRun& run) {
  if (run.report.hang) return Ending::Stuck;
  const auto& ranks = run.report.ranks;
  const bool killed = std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.killed; });
  if (!killed) return Ending::Complete;
  return run.report.failure ? Ending::Lost : Ending::Survived;
}

std::string message_of(const std::exception_ptr& error) { return error ? take_apart(error).message : ""; }

Promise promise_of(const plan::Plan& plan) {
  const auto& levels = plan.exchange.levels;
  if (!exchange::workers_keep_step(levels)) return Promise::InTheirOrder;
  return exchange::meeting_level(levels).empty() ? Promise::OneModel : Promise::OwnModels;
}

std::vector<std::string> check(const plan::Plan& plan, const FaultSchedule& schedule,
                               const SimulatedRun& calm, const SimulatedRun& seen) {
  Check check(plan, calm, seen);
  check.replicas();
  check.reported_steps();
  check.contributions();
  switch (ending_of(seen)) {
    case Ending::Complete:
    case Ending::Survived:
      check.complete();
      break;
    case Ending::Lost:
      check.lost();
      break;
    case Ending::Stuck:
      check.stuck(schedule);
      break;
  }
  return check.found;
}

std::vector<std::string> check_calm(const plan::Plan& plan, const SimulatedRun& calm) {
  Check check(plan, calm, calm);
  check.replicas();
  check.contributions();
  check.complete();
  for (std::string& sentence : check.found) sentence = "without any fault: " + sentence;
  return check.found;
}

std::vector<std::string> check_resumed(const plan::Plan& plan, const SimulatedRun& calm,
                                       const SimulatedRun& resumed) {
  Check check(plan, calm, resumed);
  check.replicas();
  check.contributions();
  check.complete();
  for (std::string& sentence : check.found) sentence = "resumed: " + sentence;
  return check.found;
}

std::vector<std::string> check_repeated(const SimulatedRun& first, const SimulatedRun& second) {
  std::vector<std::string> found;
  if (first.report.trace != second.report.trace)
    found.push_back(fmt::format("the same seed gave another run: its trace is {:016x}, then {:016x}",
                                first.report.trace, second.report.trace));
  for (std::size_t rank = 0; rank < first.ranks.size(); ++rank)
    if (first.ranks[rank].weights != second.ranks[rank].weights ||
        message_of(first.report.ranks[rank].error) != message_of(second.report.ranks[rank].error))
      found.push_back(fmt::format("the same seed gave rank {} another end", rank));
  return found;
}

}  // namespace taxon::faults
