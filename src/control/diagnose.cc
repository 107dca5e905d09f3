#include "control/diagnose.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace taxon::control {
namespace {

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::vector<std::string> numbers;
  for (Rank rank : ranks) numbers.push_back(std::to_string(rank.value()));
  if (numbers.size() == 1) return "rank " + numbers[0];
  std::string last = numbers.back();
  numbers.pop_back();
  return fmt::format("ranks {} and {}", fmt::join(numbers, ", "), last);
}

std::string operation_text(const ReportedWait& wait) {
  std::string subject = wait.subject.empty() ? "" : ", " + wait.subject;
  return fmt::format("{}{}, for {}", wait.operation, subject, format_seconds(wait.seconds));
}

/// The waits that are long enough to matter, and what follows from them.
class Diagnosis {
 public:
  explicit Diagnosis(const WaitPicture& picture) : picture_(picture), patience_(patience()) {
    for (const auto& [rank, waits] : picture.waits) {
      if (is_quiet(rank)) continue;  // what a silent rank said last is not what it does now
      for (const ReportedWait& wait : waits) {
        // Reports are up to a second old and a hang spreads from rank to rank: what has waited for half as
        // long belongs to the same hang.
        if (wait.seconds < patience_ / 2) continue;
        longest_ = std::max(longest_, wait.seconds);
        stuck_[rank].push_back(wait);
        if (wait.peer && *wait.peer != rank) targets_[rank].insert(*wait.peer);
      }
    }
  }

  std::optional<HangReport> report() const {
    if (longest_ < patience_) return {};
    HangReport report;
    report.culprits = culprits();
    report.lines.push_back(headline(report.culprits));
    for (const auto& [rank, waits] : stuck_)
      for (const ReportedWait& wait : waits)
        if (wait.peer) report.lines.push_back(waiting_line(rank, wait));
    for (Rank rank : report.culprits) report.lines.push_back(state_line(rank));
    for (const auto& [rank, waits] : stuck_)
      if (!contains(report.culprits, rank) && targets_.find(rank) == targets_.end())
        report.lines.push_back(state_line(rank));
    return report;
  }

 private:
  static bool contains(const std::vector<Rank>& ranks, Rank rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
  /// Who is silent will not move by itself: no need to be as patient as with somebody who may be busy.
  double patience() const {
    const double half = picture_.threshold / 2;
    for (const auto& [rank, waits] : picture_.waits)
      for (const ReportedWait& wait : waits)
        if (wait.peer && !is_quiet(rank) && picture_.silent.count(*wait.peer) > 0 && wait.seconds >= half)
          return half;
    return picture_.threshold;
  }
  bool is_quiet(Rank rank) const { return picture_.silent.count(rank) > 0 || picture_.left.count(rank) > 0; }

  std::vector<Rank> culprits() const {
    std::set<Rank> awaited;
    for (const auto& [rank, peers] : targets_) awaited.insert(peers.begin(), peers.end());
    auto pick = [&](auto&& matches) {
      std::vector<Rank> picked;
      std::copy_if(awaited.begin(), awaited.end(), std::back_inserter(picked), matches);
      return picked;
    };
    if (auto quiet = pick([&](Rank r) { return is_quiet(r); }); !quiet.empty()) return quiet;
    if (auto free = pick([&](Rank r) { return targets_.find(r) == targets_.end(); }); !free.empty())
      return free;
    if (!awaited.empty()) return circle();
    return outsiders();
  }

  /// Everybody who is waited for waits as well: following the waits from anyone ends in a circle.
  std::vector<Rank> circle() const {
    std::vector<Rank> path{targets_.begin()->first};
    while (true) {
      Rank next = *targets_.at(path.back()).begin();
      auto seen = std::find(path.begin(), path.end(), next);
      if (seen != path.end()) return {seen, path.end()};
      path.push_back(next);
    }
  }

  /// No wait names a rank: the silent ones, else whoever is not waiting while others are.
  std::vector<Rank> outsiders() const {
    std::vector<Rank> ranks;
    for (const auto& [rank, seconds] : picture_.silent) ranks.push_back(rank);
    if (!ranks.empty()) return ranks;
    for (int r = 0; r < picture_.world_size; ++r)
      if (stuck_.find(Rank(r)) == stuck_.end() && picture_.left.count(Rank(r)) == 0) ranks.push_back(Rank(r));
    return ranks;
  }

  bool is_circle(const std::vector<Rank>& ranks) const {
    return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [&](Rank r) {
      return !is_quiet(r) && targets_.find(r) != targets_.end();
    });
  }

  std::string headline(const std::vector<Rank>& culprits) const {
    std::string text = fmt::format("nothing has moved for {}", format_seconds(longest_));
    if (culprits.empty()) return text + ": every rank waits, and for no rank that it can name";
    if (is_circle(culprits)) {
      std::vector<std::int32_t> path;
      for (Rank rank : culprits) path.push_back(rank.value());
      path.push_back(culprits.front().value());
      return fmt::format("{}: a deadlock, {} wait for each other: {}", text, ranks_text(culprits),
                         fmt::join(path, " -> "));
    }
    return fmt::format("{}: {} {} up the others", text, ranks_text(culprits),
                       culprits.size() == 1 ? "holds" : "hold");
  }

  static std::string waiting_line(Rank rank, const ReportedWait& wait) {
    return fmt::format("  rank {} waits for rank {} in {}", rank.value(), wait.peer->value(),
                       operation_text(wait));
  }

  std::string state_line(Rank rank) const {
    std::string name = fmt::format("  rank {}", rank.value());
    if (auto silent = picture_.silent.find(rank); silent != picture_.silent.end())
      return fmt::format("{} has been silent for {}", name, format_seconds(silent->second));
    if (picture_.left.count(rank) > 0) return name + " has left the job";
    if (targets_.find(rank) != targets_.end()) return name + " is part of the circle";
    auto waits = picture_.waits.find(rank);
    if (waits == picture_.waits.end() || waits->second.empty()) return name + " waits for nothing";
    return fmt::format("{} waits for no rank that it can name; it is in {}", name,
                       operation_text(waits->second.front()));
  }

  const WaitPicture& picture_;
  const double patience_;
  std::map<Rank, std::vector<ReportedWait>> stuck_;
  std::map<Rank, std::set<Rank>> targets_;
  double longest_ = 0;
};

}  // namespace

std::vector<ReportedWait> reported(const std::vector<task::WaitInfo>& waits, Instant now) {
  std::vector<ReportedWait> all;
  for (const task::WaitInfo& wait : waits)
    all.push_back({wait.operation, wait.peer, wait.subject, to_seconds(now - wait.since)});
  return all;
}

std::optional<HangReport> diagnose(const WaitPicture& picture) { return Diagnosis(picture).report(); }

}  // namespace taxon::control
