#include "sim/coarse.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/trace_scope.h"
#include "net/describe.h"
#include "sim/rendezvous.h"

namespace taxon::sim {
namespace {

std::vector<std::byte> one_after_the_other(std::span<const ConstView> members, DType) {
  std::vector<std::byte> all;
  all.reserve(members.size() * members[0].size());
  for (ConstView bytes : members) all.insert(all.end(), bytes.data(), bytes.data() + bytes.size());
  return all;
}

constexpr CoarseSchedule kGather{net::Operation::AllGather, "gather", "gather", evaluate_gather,
                                 one_after_the_other};

std::string words(std::size_t bytes, DType type, const CoarseSchedule& schedule) {
  return fmt::format("{} x {} ({} bytes) for {}", bytes / size_of(type), to_string(type), bytes,
                     schedule.label);
}

}  // namespace

Coarse::Coarse(EventQueue& queue, Wiring& wiring, Faults& faults)
    : queue_(queue),
      wiring_(wiring),
      faults_(faults),
      evaluator_(wiring, faults.touches_links() ? &faults : nullptr),
      flows_(queue, wiring.links().size() + wiring.ranks()),
      summing_(wiring.ranks()) {}

Coarse::~Coarse() = default;

task::Task<void> Coarse::run(const comm::CollectiveRow& row, comm::Communicator& group, comm::Call call) {
  const CoarseSchedule* schedule = find_schedule(row);
  if (!schedule) {  // message by message
    co_await row.steps(group, call);
    co_return;
  }
  if (row.collective == net::Operation::Barrier) call.data = View();
  comm::TraceScope recorded(group, schedule->label, call);
  if (group.size() == 1) co_return;
  if (auto why = group.runtime().pending().cancelled()) std::rethrow_exception(why);
  Subject subject{schedule, group.begin(row.collective, call.unit, call.lane), call.data.size(), call.type};
  Rendezvous& rendezvous = this->rendezvous(group, subject);
  Entry::Payload payload{call.data, call.data};
  const comm::Shape shape{group.size(), call.data.size(), group.shares_memory()};
  group.runtime().transport.count_stored(static_cast<std::size_t>(row.sent(shape)));
  Entry entry(rendezvous, group, payload);
  co_await entry;
}

task::Task<std::vector<std::byte>> Coarse::gather(comm::Communicator& group, net::Tag tag, ConstView mine) {
  std::vector<std::byte> all;
  if (group.size() == 1) {
    all.assign(mine.data(), mine.data() + mine.size());
    co_return all;
  }
  if (auto why = group.runtime().pending().cancelled()) std::rethrow_exception(why);
  Subject subject{&kGather, tag, mine.size(), DType::UInt8};
  Rendezvous& rendezvous = this->rendezvous(group, subject);
  Entry::Payload payload{mine, View(), &all};
  group.runtime().transport.count_stored(mine.size() * static_cast<std::size_t>(group.size() - 1));
  Entry entry(rendezvous, group, payload);
  co_await entry;
  co_return all;
}

Coarse::Rendezvous& Coarse::rendezvous(comm::Communicator& group, const Subject& subject) {
  std::unique_ptr<Rendezvous>& place = rendezvous_[subject.tag];
  if (!place) place = std::make_unique<Rendezvous>(*this, party(group, subject.tag.group), subject);
  const Subject& first = place->subject();
  if (first.schedule == subject.schedule && first.bytes == subject.bytes && first.type == subject.type)
    return *place;
  const Rank other = place->party().members[static_cast<std::size_t>(place->first())];
  const std::string operation = net::describe_operation(subject.tag), what = net::describe_tag(subject.tag);
  throw Error(
      ErrorKind::Mismatch,
      fmt::format("Ranks disagree in {}, {}: rank {} came with {}, rank {} with {}. Every rank must run "
                  "the same plan and the same model.",
                  operation, what, other.value(), words(first.bytes, first.type, *first.schedule),
                  group.runtime().rank().value(), words(subject.bytes, subject.type, *subject.schedule)),
      ErrorContext{other, operation, what});
}

Coarse::Party& Coarse::party(const comm::Communicator& group, std::uint32_t number) {
  auto [place, fresh] = parties_.try_emplace(number);
  if (fresh)
    for (int member = 0; member < group.size(); ++member)
      place->second.members.push_back(group.global(member));
  return place->second;
}

/// What never changes is gone through once.
std::shared_ptr<const Coarse::Profile> Coarse::profile(Party& party, const Subject& subject) {
  auto& known = party.profiles[{subject.schedule, subject.bytes, subject.type}];
  if (known && evaluator_.is_steady()) return known;
  auto profile = std::make_shared<Profile>();
  evaluator_.begin(party.members, queue_.now());
  profile->table = subject.schedule->evaluate(evaluator_, subject.bytes, subject.type);
  profile->uses = evaluator_.uses();
  profile->cut_off = evaluator_.cut_off();
  for (Duration& end : profile->table.ends) {
    // What no cut link holds up comes, if only when virtual time is over.
    if (!profile->cut_off) end = std::min(end, ScheduleEvaluator::kNever - Duration(1));
    if (end < ScheduleEvaluator::kNever) profile->length = std::max(profile->length, end);
  }
  const double length = static_cast<double>(profile->length.count());
  for (const ScheduleEvaluator::Use& use : profile->uses) {
    if (use.busy <= Duration(0) || length <= 0) continue;
    const auto messages = static_cast<double>(use.messages), busy = static_cast<double>(use.busy.count());
    const double stay = static_cast<double>(use.stays.count()) / messages;
    // Where a slow end lets messages pile up, they stand there for longer than the flow waits for any.
    const double over = std::min(stay - busy / messages, length / profile->table.waits);
    profile->loads.push_back({use.wire, static_cast<float>(std::min(1.0, busy / length)),
                              static_cast<float>(stay), static_cast<float>(over)});
  }
  known = profile;
  return known;
}

void Coarse::count(const Profile& profile) {
  for (const ScheduleEvaluator::Use& use : profile.uses) {
    if (use.wire < evaluator_.links())
      wiring_.link(use.wire).count(use.messages, static_cast<std::uint64_t>(use.bytes), use.busy);
    else
      summing_[use.wire - evaluator_.links()] += use.busy;
  }
}

void Coarse::over(Rendezvous& rendezvous) {
  ++collectives_;
  rendezvous_.erase(net::Tag(rendezvous.subject().tag));
}

}  // namespace taxon::sim
