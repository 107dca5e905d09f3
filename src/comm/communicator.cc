#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/channel.h"
#include "comm/collective_executor.h"
#include "comm/told.h"
#include "net/describe.h"

namespace taxon::comm {
namespace {

/// FNV-1a: tags must be equal in every build of every rank, which std::hash does not promise.
class TagHash {
 public:
  void add(std::string_view bytes) {
    for (char c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  void add(std::int32_t number) {
    for (int shift = 0; shift < 32; shift += 8)
      value_ = (value_ ^ (static_cast<std::uint32_t>(number) >> shift & 0xffU)) * 16777619U;
  }
  std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 2166136261U;
};

bool contains(View whole, View piece) {
  if (whole.is_phantom() || piece.is_phantom())
    return whole.is_phantom() && piece.is_phantom() && piece.size() <= whole.size();
  return piece.data() >= whole.data() && piece.data() + piece.size() <= whole.data() + whole.size();
}

bool overlap(View a, View b) {
  if (a.is_phantom() || b.is_phantom()) return false;
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

/// Of a region's description: owner, place, size and the transport's key.
constexpr std::size_t kMostPacked = 4096;

struct RegionFacts {
  std::uint64_t size = 0;
  std::uint64_t packed = 0;  // bytes
};

}  // namespace

struct Communicator::Key {
  std::uint32_t uses = 0;
  std::unique_ptr<Channel> channel;
};

Communicator::Communicator(Runtime& runtime, std::string_view name, std::vector<Rank> members)
    : runtime_(runtime), members_(std::move(members)) {
  identify(name);
}

void Communicator::identify(std::string_view name) {
  TagHash hash;
  hash.add(name);
  for (Rank member : members_) hash.add(member.value());
  group_ = hash.value();
  auto own = std::find(members_.begin(), members_.end(), runtime_.rank());
  TAXON_CHECK(own != members_.end(), "rank ", runtime_.rank().value(), " is no member of ", name);
  rank_ = static_cast<int>(own - members_.begin());
}

void Communicator::narrow(std::string_view name, std::vector<Rank> members) {
  keys_.clear();
  shared_.clear();
  shares_memory_ = false;
  members_ = std::move(members);
  identify(name);
}

Communicator::~Communicator() = default;

std::uint64_t Communicator::key(const net::Tag& tag) {
  return static_cast<std::uint64_t>(tag.operation) << 48 | static_cast<std::uint64_t>(tag.lane) << 32 |
         tag.unit;
}

net::Tag Communicator::begin(net::Operation operation, std::uint32_t unit, std::uint16_t lane) {
  net::Tag tag{group_, operation, lane, unit, 0, 0};
  tag.sequence = keys_[key(tag)].uses++;
  return tag;
}

net::Tag Communicator::tag(net::Operation operation, std::uint32_t unit) const {
  return {group_, operation, 0, unit, 0, 0};
}

std::unique_ptr<Channel>& Communicator::channel(const net::Tag& tag) { return keys_[key(tag)].channel; }

task::Task<std::vector<std::byte>> Communicator::gather(net::Tag tag, ConstView mine) {
  return runtime_.carrier.gather(*this, tag, mine);
}

task::Task<void> Communicator::establish() {
  std::byte shares{1};
  for (Rank member : members_)
    if (member != runtime_.rank() && !runtime_.transport.path(member).shared_memory) shares = std::byte{0};
  net::Tag tag = begin(net::Operation::ShareRegions, 0);
  auto asked = gather(tag, ConstView(&shares, 1));
  auto answers = co_await asked;
  shares_memory_ = std::find(answers.begin(), answers.end(), std::byte{0}) == answers.end();
}

task::Task<std::vector<View>> Communicator::map_all(net::Tag tag, const net::Region& region) {
  std::vector<std::byte> packed;
  if (region) packed = region.share().pack();
  RegionFacts facts{region.bytes().size(), packed.size()};
  auto asked = gather(tag, ConstView(reinterpret_cast<const std::byte*>(&facts), sizeof facts));
  auto answers = co_await asked;
  std::vector<RegionFacts> all(members_.size());
  std::memcpy(all.data(), answers.data(), answers.size());
  std::size_t longest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].size != facts.size)
      throw Error(ErrorKind::Mismatch,
                  fmt::format("Ranks disagree on the size of shared memory: rank {} has {} bytes, rank {} "
                              "has {}. Every rank must run the same plan and the same model.",
                              members_[i].value(), all[i].size, runtime_.rank().value(), facts.size),
                  ErrorContext{members_[i], net::describe_operation(tag), net::describe_tag(tag)});
    if (all[i].packed > kMostPacked)
      throw told_wrong(members_[i], net::describe_operation(tag),
                       fmt::format("{} bytes that describe a region", all[i].packed));
    longest = std::max<std::size_t>(longest, all[i].packed);
  }
  if (!shares_memory_) co_return std::vector<View>();  // who can't reach all maps none
  packed.resize(longest);
  ++tag.round;
  auto sent = gather(tag, ConstView(packed.data(), packed.size()));
  auto regions = co_await sent;

  std::vector<View> views(members_.size());
  std::byte mapped{1};
  for (std::size_t i = 0; i < all.size() && facts.size > 0; ++i) {
    if (static_cast<int>(i) == rank_) {
      views[i] = region.bytes();
      continue;
    }
    auto remote = net::RemoteRegion::unpack(ConstView(regions.data() + i * longest, all[i].packed));
    if (remote.owner != members_[i] || remote.size != facts.size)
      throw told_wrong(members_[i], net::describe_operation(tag),
                       fmt::format("a region of {} bytes of rank {}", remote.size, remote.owner.value()));
    views[i] = runtime_.transport.map(remote);
    if (views[i].size() != facts.size) mapped = std::byte{0};
  }
  ++tag.round;
  auto agreed = gather(tag, ConstView(&mapped, 1));
  auto flags = co_await agreed;
  if (std::find(flags.begin(), flags.end(), std::byte{0}) == flags.end()) co_return views;
  // A member that died can't be mapped either: then its loss is the reason, and this is where it shows.
  ++tag.round;
  auto alive = gather(tag, ConstView(&mapped, 1));
  co_await alive;
  co_return std::vector<View>();
}

task::Task<void> Communicator::share(const net::Region& region) {
  net::Tag tag = begin(net::Operation::ShareRegions, 1);
  auto views = co_await map_all(tag, region);
  if (!region) co_return;
  // A region that died left its addresses to this one.
  std::erase_if(shared_, [&](const Shared& old) { return overlap(old.own, region.bytes()); });
  shared_.push_back({region.bytes(), std::move(views)});
}

PeerMemory Communicator::peers(View view) const {
  PeerMemory found;
  for (const Shared& shared : shared_) {
    if (shared.members.empty() || !contains(shared.own, view)) continue;
    auto offset = view.is_phantom() ? 0 : static_cast<std::size_t>(view.data() - shared.own.data());
    found.members.reserve(shared.members.size());
    for (View member : shared.members) found.members.push_back(member.slice(offset, view.size()));
    break;
  }
  return found;
}

}  // namespace taxon::comm
