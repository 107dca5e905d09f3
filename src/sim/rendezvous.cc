#include "sim/rendezvous.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "net/describe.h"

namespace taxon::sim {

Coarse::Entry::Entry(Rendezvous& rendezvous, comm::Communicator& group, Payload payload)
    : rendezvous_(rendezvous),
      waits_(group.runtime().pending()),
      executor_(group.runtime().executor()),
      member_(group.rank()),
      payload_(payload) {}

void Coarse::Entry::await_suspend(std::coroutine_handle<> then) {
  then_ = then;
  since_ = executor_.now();
  list_in(waits_);
  rendezvous_.enter(*this);
}

void Coarse::Entry::await_resume() const {
  if (error_) std::rethrow_exception(error_);
}

task::WaitInfo Coarse::Entry::describe() const {
  const net::Tag& tag = rendezvous_.subject().tag;
  return {net::describe_operation(tag), rendezvous_.missing(member_), net::describe_subject(tag, waits_),
          since_};
}

void Coarse::Entry::finish() {
  unlist();
  rendezvous_.hand_out(*this);
  then_.resume();
}

bool Coarse::Entry::release(std::exception_ptr why) {
  error_ = why;
  rendezvous_.leave(*this);
  return true;
}

Coarse::Rendezvous::Rendezvous(Coarse& owner, Party& party, const Subject& subject)
    : owner_(owner),
      party_(party),
      subject_(subject),
      entries_(party.members.size()),
      came_(party.members.size(), Instant(Duration(-1))),
      late_(subject.schedule->behind != nullptr ? party.members.size() : 0, Duration(-1)) {}

Coarse::Rendezvous::~Rendezvous() { owner_.flows_.end(*this); }

void Coarse::Rendezvous::enter(Entry& entry) {
  const int member = entry.member();
  if (first_ < 0) first_ = member;
  entries_[index(member)] = &entry;
  came_[index(member)] = owner_.queue_.now();
  ++here_;
  ++waiting_;
  if (broken_) return;
  if (subject_.schedule->behind == nullptr) {
    if (here_ == entries_.size()) all_are_here();
    return;
  }
  if (member == 0) {
    profile_ = owner_.profile(party_, subject_);
    begin(owner_.queue_.now());
    decide();
    reach(0, Duration(0));
  } else if (const Duration above = late_[index(subject_.schedule->behind(member))]; above >= Duration(0)) {
    reach(member, above);
  }
  if (profile_) call_next();
}

void Coarse::Rendezvous::begin(Instant when) {
  owner_.count(*profile_);
  loaded_ = true;
  const auto length = static_cast<double>(profile_->length.count());
  Flows::Start start{profile_->loads, Duration(std::llround(length / profile_->table.waits)),
                     owner_.queue_.now() - when};
  owner_.flows_.start(*this, std::move(start));
}

void Coarse::Rendezvous::all_are_here() {
  profile_ = owner_.profile(party_, subject_);
  const CompletionTimes& table = profile_->table;
  Instant when{};
  for (std::size_t member = 0; member < entries_.size(); ++member)
    when = std::max(when, came_[member] - (table.slack.empty() ? Duration(0) : table.slack[member]));
  begin(when);
  decide();
  for (std::size_t member = 0; member < entries_.size(); ++member)
    due_.push({table.ends[member], static_cast<int>(member)});
  call_next();
}

/// The data has a way from the root to this member, who came so much too late, or somebody on the way did.
void Coarse::Rendezvous::reach(int member, Duration late) {
  const CompletionTimes& table = profile_->table;
  const Duration now = owner_.flows_.progress(*this);
  late = std::max({late, Duration(0), now - table.first[index(member)]});
  late_[index(member)] = late;
  ++reached_;
  if (member > 0 || !subject_.schedule->root_waits)
    due_.push({std::max(now, table.ends[index(member)] + late), member});
  if (reached_ == entries_.size() && subject_.schedule->root_waits) {
    const Duration latest = *std::max_element(late_.begin(), late_.end());
    due_.push({std::max(now, table.ends[0] + latest), 0});
  }
  reach_children(member);
}

void Coarse::Rendezvous::reach_children(int member) {
  if (reached_ == here_) return;
  for (std::size_t other = 1; other < entries_.size(); ++other)
    if (late_[other] < Duration(0) && has_come(static_cast<int>(other)) &&
        subject_.schedule->behind(static_cast<int>(other)) == member)
      reach(static_cast<int>(other), late_[index(member)]);
}

/// What the data is afterwards. Of a broadcast it is the root's alone.
void Coarse::Rendezvous::decide() {
  if (subject_.schedule->outcome == nullptr || subject_.bytes == 0) return;
  std::vector<ConstView> sources;
  const std::size_t count = subject_.schedule->behind != nullptr ? 1 : entries_.size();
  for (std::size_t member = 0; member < count; ++member) {
    sources.push_back(entries_[member]->payload().source);
    if (sources.back().is_phantom()) return;
  }
  outcome_ = subject_.schedule->outcome(sources, subject_.type);
  has_outcome_ = true;
}

void Coarse::Rendezvous::hand_out(const Entry& entry) const {
  const Entry::Payload& payload = entry.payload();
  if (payload.all != nullptr) *payload.all = outcome_;
  if (!has_outcome_ || payload.target.empty() || payload.target.is_phantom()) return;
  Range range{0, outcome_.size()};
  if (subject_.schedule->collective == net::Operation::ReduceScatter) {
    const std::size_t element = size_of(subject_.type);
    range = part({0, range.size / element}, entries_.size(), index(entry.member()));
    range = {range.begin * element, range.size * element};
  }
  if (range.size > 0)
    std::memcpy(payload.target.data() + range.begin, outcome_.data() + range.begin, range.size);
}

void Coarse::Rendezvous::call_next() {
  if (broken_) return;
  const Duration next = due_.empty() ? ScheduleEvaluator::kNever : due_.top().at;
  const Duration until = loaded_ ? std::min(next, profile_->length) : next;
  if (until < ScheduleEvaluator::kNever) owner_.flows_.call_at(*this, until);
}

void Coarse::Rendezvous::made(Duration progress) {
  if (loaded_ && progress >= profile_->length) {
    loaded_ = false;
    owner_.flows_.unload(*this);
  }
  releasing_ = true;
  while (!broken_ && !due_.empty() && due_.top().at <= progress) {
    const int member = due_.top().member;
    due_.pop();
    Entry* entry = std::exchange(entries_[index(member)], nullptr);
    --waiting_;
    ++gone_;
    owner_.queue_.note(static_cast<std::uint64_t>(party_.members[index(member)].value()) << 40 ^
                       subject_.bytes);
    entry->finish();
  }
  releasing_ = false;
  if (is_over()) return owner_.over(*this);
  call_next();
}

void Coarse::Rendezvous::leave(const Entry& entry) {
  entries_[index(entry.member())] = nullptr;
  --waiting_;
  if (!broken_) left_first_ = entry.member();
  broken_ = true;
  owner_.flows_.end(*this);
  if (is_over() && !releasing_) owner_.over(*this);
}

std::optional<Rank> Coarse::Rendezvous::missing(int member) const {
  auto rank = [&](int other) { return party_.members[index(other)]; };
  if (left_first_ >= 0) return rank(left_first_);
  if (subject_.schedule->behind != nullptr && member > 0) {
    // The one nearest to the root: whoever is behind it can't go on either.
    std::optional<Rank> nearest;
    for (int above = member; above > 0;) {
      above = subject_.schedule->behind(above);
      if (!has_come(above)) nearest = rank(above);
    }
    if (nearest) return nearest;
  } else if (subject_.schedule->behind == nullptr || subject_.schedule->root_waits) {
    // Backwards from this member: where there are several, not everybody names the same one.
    const auto size = static_cast<int>(entries_.size());
    for (int step = 1; step < size; ++step)
      if (const int other = (member - step + size) % size; !has_come(other)) return rank(other);
  }
  return profile_ ? profile_->cut_off : std::nullopt;
}

}  // namespace taxon::sim
