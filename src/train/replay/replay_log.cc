#include "train/replay/replay_log.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "comm/told.h"
#include "exchange/levels/levels.h"
#include "plan/difference.h"
#include "train/bytes.h"

namespace taxon::train {
namespace {

using exchange::AsyncEvent;
using exchange::AsyncEvents;

constexpr const char* kHead = "taxon order 1: {} ranks, parameters {:016x}, checksum {:016x}";
constexpr const char* kPlanLine = "| ";
constexpr std::size_t kMostRanks = 1'000'000;

struct KindRow {
  std::string_view name;
  AsyncEvent::Kind kind;
};
constexpr KindRow kKinds[] = {
    {"admit", AsyncEvent::Kind::Admit},    {"drop", AsyncEvent::Kind::Drop},
    {"repeat", AsyncEvent::Kind::Repeat},  {"update", AsyncEvent::Kind::Update},
    {"answer", AsyncEvent::Kind::Answer},  {"pause", AsyncEvent::Kind::Pause},
    {"lose", AsyncEvent::Kind::Lose},      {"time", AsyncEvent::Kind::Time},
    {"turn", AsyncEvent::Kind::Turn},      {"report", AsyncEvent::Kind::Report},
    {"stop", AsyncEvent::Kind::Stop},      {"average", AsyncEvent::Kind::Average},
    {"own_way", AsyncEvent::Kind::OwnWay}, {"take_over", AsyncEvent::Kind::TakeOver},
};

std::string_view name_of(AsyncEvent::Kind kind) {
  for (const KindRow& row : kKinds)
    if (row.kind == kind) return row.name;
  TAXON_CHECK(false, "no act of an order is of kind ", static_cast<int>(kind));
}

std::uint64_t checksum_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

[[noreturn]] void refuse(const std::string& origin, std::size_t line, const std::string& what) {
  throw Error(ErrorKind::Data, fmt::format("{}:{}: {}", origin, line, what), {.tensor = origin});
}

/// False if the line is none.
bool read_event(const std::string& line, std::size_t ranks, std::size_t* rank, AsyncEvent* event) {
  std::istringstream words(line);
  std::string kind;
  words >> *rank >> kind >> event->unit >> event->worker >> event->number;
  const auto* row = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const KindRow& known) { return known.name == kind; });
  if (!words || row == std::end(kKinds)) return false;
  event->kind = row->kind;
  return *rank < ranks && event->worker >= 0 && static_cast<std::size_t>(event->worker) < ranks;
}

std::string differences(const std::string& there, const std::string& here) {
  std::vector<std::string> found;
  for (const plan::Difference& difference :
       plan::differences(plan::parse_plan(there, "the order's plan"), plan::parse_plan(here, "this plan")))
    found.push_back(plan::describe(difference));
  constexpr std::size_t kMost = 4;
  const std::size_t more = found.size() > kMost ? found.size() - kMost : 0;
  found.resize(found.size() - more);
  return fmt::format("{}{}", fmt::join(found, "; "), more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace

std::string decisive_plan(const plan::Plan& plan) {
  plan::Plan decisive = plan;
  decisive.name = {};
  decisive.transport = {};
  decisive.control = {};
  decisive.report = {};
  decisive.emulation = {};
  decisive.resolved = {};
  return plan::write_plan(decisive);
}

std::string to_text(const ReplayLog& order) {
  std::string text;
  std::istringstream plan(order.plan);
  for (std::string line; std::getline(plan, line);) text += kPlanLine + line + "\n";
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank)
    for (const AsyncEvent& event : order.ranks[rank])
      fmt::format_to(std::back_inserter(text), "{} {} {} {} {}\n", rank, name_of(event.kind), event.unit,
                     event.worker, event.number);
  const std::string head =
      fmt::format(fmt::runtime(kHead), order.ranks.size(), order.parameter_hash, checksum_of(text));
  return head + "\n" + text;
}

ReplayLog parse_order(const std::string& text, const std::string& origin) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  std::size_t ranks = 0;
  unsigned long long hash = 0, checksum = 0;
  constexpr const char* kScan = "taxon order 1: %zu ranks, parameters %llx, checksum %llx";
  if (std::sscanf(line.c_str(), kScan, &ranks, &hash, &checksum) != 3 || ranks < 1 || ranks > kMostRanks)
    refuse(origin, 1, fmt::format("'{}' is not the first line of an order of this version", line));
  const std::size_t body = std::min(text.size(), line.size() + 1);
  if (checksum_of(std::string_view(text).substr(body)) != checksum)
    refuse(origin, 1, "what follows is not what was written: the file was changed or cut short");
  ReplayLog order{{}, hash, std::vector<AsyncEvents>(ranks)};
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    if (line.rfind(kPlanLine, 0) == 0) {
      order.plan += line.substr(2) + "\n";
      continue;
    }
    AsyncEvent event;
    std::size_t rank = 0;
    if (!read_event(line, ranks, &rank, &event))
      refuse(origin, number, fmt::format("'{}' is no act: rank, act, unit, worker and number", line));
    order.ranks[rank].push_back(event);
  }
  return order;
}

std::vector<plan::Problem> problems_of_recording(const plan::Plan& plan, const exchange::Extensions& own) {
  if (!exchange::workers_keep_step(plan.exchange.levels, own)) return {};
  return {{"--record-order",
           "has nothing to record where workers keep step: the same plan comes to the same bits anyway"}};
}

std::vector<plan::Problem> problems_of_following(const plan::Plan& plan, int world_size,
                                                 const ReplayLog& order, const std::string& origin) {
  std::vector<plan::Problem> problems;
  auto refuse = [&](const std::string& sentence) { problems.push_back({"--follow-order", sentence}); };
  if (order.ranks.size() != static_cast<std::size_t>(world_size))
    refuse(fmt::format("{} is of {} ranks, and this run has {}: start as many", origin, order.ranks.size(),
                       world_size));
  if (const std::string found = differences(order.plan, decisive_plan(plan)); !found.empty())
    refuse(fmt::format("{} is of another plan: {}", origin, found));
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank)
    for (const AsyncEvent& event : order.ranks[rank])
      if (event.kind == AsyncEvent::Kind::Lose) {
        refuse(fmt::format("{} is of a run that lost rank {}: that can't be followed", origin, event.worker));
        return problems;
      }
  return problems;
}

std::vector<std::byte> pack_acts(const AsyncEvents& events) {
  Packer packer;
  for (const AsyncEvent& event : events)
    if (!AsyncEvent::is_consequence(event.kind)) {
      packer.number(static_cast<std::int64_t>(event.kind));
      packer.number(event.unit);
      packer.number(event.worker);
      packer.number(event.number);
    }
  packer.number(-1);
  return packer.take();
}

AsyncEvents unpack_acts(const std::vector<std::byte>& bytes, Rank from) {
  Unpacker unpacker(bytes, from);
  AsyncEvents events;
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t kind = unpacker.number(); kind >= 0; kind = unpacker.number()) {
    const std::int64_t unit = unpacker.number(), worker = unpacker.number();
    const bool known = std::any_of(std::begin(kKinds), std::end(kKinds), [kind](const KindRow& row) {
      return static_cast<std::int64_t>(row.kind) == kind;
    });
    if (!known || unit < AsyncEvent::kNoUnit || unit > kMost || worker < 0 || worker > kMost)
      throw comm::told_wrong(from, "acts",
                             fmt::format("an act of kind {}, unit {}, worker {}", kind, unit, worker));
    events.push_back({static_cast<AsyncEvent::Kind>(kind), static_cast<std::int32_t>(unit),
                      static_cast<std::int32_t>(worker), unpacker.number()});
  }
  return events;
}

}  // namespace taxon::train
