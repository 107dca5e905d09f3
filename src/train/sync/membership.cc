#include "train/sync/membership.h"

#include <fmt/format.h>

#include <deque>

#include "comm/told.h"
#include "train/units.h"

namespace taxon::train {
namespace {

constexpr std::uint32_t kHere = 0, kList = 1, kParted = 2;

}  // namespace

Membership::Membership(comm::Communicator& all, comm::Communicator& present, comm::FailureMonitor& failures)
    : all_(all), present_(present), failures_(failures), here_(static_cast<std::size_t>(all.size()), 1) {
  watch();
}

net::Tag Membership::tag(std::uint32_t round) const {
  net::Tag tag = all_.tag(net::Operation::Serve, kRosterUnit);
  tag.sequence = use_;
  tag.round = round;
  return tag;
}

task::Task<void> Membership::call() {
  together_ = true;
  const std::vector<std::int64_t> before = here_;
  auto listing = all_.rank() == 0 ? count() : ask();
  co_await listing;
  ++use_;
  watch();
  if (here_ == before) co_return;
  std::vector<Rank> members;
  for (int member = 0; member < all_.size(); ++member)
    if (here_[static_cast<std::size_t>(member)] != 0) members.push_back(all_.global(member));
  present_.narrow("present", std::move(members));
  co_await present_.establish();
}

task::Task<void> Membership::part() {
  watches_.clear();
  if (all_.rank() != 0) {
    co_await say(kParted);
  } else {
    for (int member = 1; member < all_.size(); ++member) {
      if (here_[static_cast<std::size_t>(member)] == 0) continue;
      std::int64_t parted = 0;
      co_await receive(member, kParted, &parted);
    }
  }
  together_ = false;
}

/// 1 if the member says so, 0 if it is lost.
task::Task<void> Membership::receive(int member, std::uint32_t round, std::int64_t* said) {
  net::Transport& transport = all_.runtime().transport;
  const Rank peer = all_.global(member);
  net::RecvOp hears(transport, peer, tag(round), as_view(std::span(said, 1)), DType::Int64);
  comm::GuardedOp guard(&failures_, transport, hears);
  std::exception_ptr error;
  try {
    co_await hears;
  } catch (...) {
    error = std::current_exception();
  }
  if (!error && *said != 1)
    throw comm::told_wrong(peer, "membership", fmt::format("{} for being here", *said));
  if (!error) co_return;
  if (!comm::is_expendable_loss(&failures_, peer, error)) std::rethrow_exception(error);
  *said = 0;
}

task::Task<void> Membership::say(std::uint32_t round) {
  const std::int64_t here = 1;
  net::SendOp says(all_.runtime().transport, all_.global(0), tag(round),
                   as_const_view(std::span<const std::int64_t>(&here, 1)), DType::Int64);
  co_await says;
}

task::Task<void> Membership::count() {
  net::Transport& transport = all_.runtime().transport;
  for (int member = 1; member < all_.size(); ++member) {
    std::int64_t& here = here_[static_cast<std::size_t>(member)];
    if (here == 0) continue;
    co_await receive(member, kHere, &here);
  }
  // Who came and was lost while others were awaited: it was said already that they go on.
  for (int member = 1; member < all_.size(); ++member)
    if (failures_.lost(all_.global(member))) here_[static_cast<std::size_t>(member)] = 0;
  std::deque<net::SendOp> sends;
  for (int member = 1; member < all_.size(); ++member)
    if (here_[static_cast<std::size_t>(member)] != 0)
      sends.emplace_back(transport, all_.global(member), tag(kList),
                         as_const_view(std::span<const std::int64_t>(here_)), DType::Int64);
  // A few bytes each; whoever is lost now ends the run, see watch().
  watch();
  for (net::SendOp& send : sends) co_await send;
}

task::Task<void> Membership::ask() {
  net::Transport& transport = all_.runtime().transport;
  const Rank first = all_.global(0);
  co_await say(kHere);
  const std::vector<std::int64_t> before = here_;
  net::RecvOp hears(transport, first, tag(kList), as_view(std::span(here_)), DType::Int64);
  co_await hears;
  for (std::size_t member = 0; member < here_.size(); ++member) {
    const bool must = member == 0 || static_cast<int>(member) == all_.rank();
    if (here_[member] < (must ? 1 : 0) || here_[member] > before[member])
      throw comm::told_wrong(first, "membership",
                             fmt::format("{} for rank {}, who was {}", here_[member],
                                         all_.global(static_cast<int>(member)).value(), before[member]));
  }
}

/// Ends the run, too, if one is lost already who was counted.
void Membership::watch() {
  watches_.clear();
  for (int member = 1; member < all_.size(); ++member) {
    const Rank rank = all_.global(member);
    if (here_[static_cast<std::size_t>(member)] == 0) continue;
    if (auto why = failures_.is_expendable(rank) ? failures_.lost(rank) : nullptr)
      all_.runtime().pending().cancel(why);
    else
      watches_.push_back(std::make_unique<Watch>(&failures_, rank, all_.runtime().pending()));
  }
}

std::vector<Rank> Membership::missing() const {
  std::vector<Rank> missing;
  for (int member = 0; member < all_.size(); ++member)
    if (here_[static_cast<std::size_t>(member)] == 0) missing.push_back(all_.global(member));
  return missing;
}

}  // namespace taxon::train
