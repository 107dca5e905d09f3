#include "net/routed_transport.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "net/describe.h"
#include "net/heap_region.h"
#include "net/tcp/network.h"
#include "net/transport_choice.h"
#include "net/ucx/network.h"
#include "net/wire/awaited_signals.h"
#include "net/wire/inbox.h"

namespace taxon::net {
namespace {

/// While signals are awaited, a poll looks at them this often before it asks the networks, and that only
/// every few polls: a look costs a few nanoseconds, a network system calls.
constexpr int kSignalLooks = 32;
constexpr int kLooksPerPause = 4;  // a pause is for who shares the core; it takes longer than some looks
constexpr int kPollsPerProgress = 16;
constexpr Duration kDrainLimit = std::chrono::seconds(2);

/// What a rank tells its peers: the cards of its networks, each behind its length; 0: it has no such network.
std::vector<std::byte> pack(const std::vector<std::byte>& ucx, const std::vector<std::byte>& tcp) {
  std::vector<std::byte> bytes;
  for (const auto* card : {&ucx, &tcp}) {
    const std::uint64_t size = card->size();
    const auto* begin = reinterpret_cast<const std::byte*>(&size);
    bytes.insert(bytes.end(), begin, begin + sizeof size);
    bytes.insert(bytes.end(), card->begin(), card->end());
  }
  return bytes;
}

struct Cards {
  ConstView ucx, tcp;
};
/// Throws Error{Mismatch}.
Cards unpack(ConstView bytes) {
  Cards cards;
  for (ConstView* card : {&cards.ucx, &cards.tcp}) {
    std::uint64_t size = 0;
    if (bytes.size() < sizeof size) throw Error(ErrorKind::Mismatch, "the address of a rank is cut short");
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes = bytes.slice(sizeof size, bytes.size() - sizeof size);
    if (size > bytes.size()) throw Error(ErrorKind::Mismatch, "the address of a rank is cut short");
    *card = bytes.slice(0, size);
    bytes = bytes.slice(size, bytes.size() - size);
  }
  return cards;
}

}  // namespace

class RoutedTransport::Impl {
 public:
  Impl(task::Executor& executor, task::PendingOps& pending, ProcessTransportOptions options);
  ~Impl();

  void connect(const std::vector<PeerInfo>& peers);
  std::unique_ptr<NetworkPeer> reach(Rank rank, const PeerInfo& info);
  NetworkPeer& peer(Rank rank);
  bool is_self(Rank rank) const { return rank == options.rank; }

  /// True if the op is not to be completed now: it will be, or it failed.
  bool send(Op& op);
  void put_here(const PutOp& op);
  void put_mapped(NetworkPeer& peer, const PutOp& op);
  void raise_mapped(NetworkPeer& peer, RemoteSignal signal, std::uint64_t value);
  bool poll();
  bool arm();
  bool look_for_signals();
  void drain();

  task::Executor& executor;
  task::PendingOps& pending;
  const ProcessTransportOptions options;
  const std::unique_ptr<UcxNetwork> ucx;  // null: the choice goes without
  RegionTable heap;                       // of regions where there is no UCX
  const RegionTable& regions;
  Region page_region;
  SignalPage page;
  const RemoteFence fence = join_remote_fences();
  Completions completions;
  Inbox inbox;
  const std::unique_ptr<tcp::TcpNetwork> tcp;       // null: the choice goes without
  std::vector<std::unique_ptr<NetworkPeer>> peers;  // by rank; null at the own one
  AwaitedSignals awaiting;
  Traffic traffic;

 private:
  bool progress();
  void confirm();
  unsigned polls_ = 0;   // while signals were awaited
  bool looked_ = false;  // at the networks, in the last poll, which found nothing there
  bool needs(const NetworkPeer& peer) const;
  void look_for_failures();
};

namespace {

/// Throws Error{Usage} for other transports' choices.
const TransportChoice& own_choice(const std::string& name) {
  const TransportChoice& choice = find_transport_choice(name);
  if (choice.tls == nullptr && choice.tcp == TransportChoice::Tcp::None)
    throw Error(ErrorKind::Usage, fmt::format("transport \"{}\" is another transport's", name));
  return choice;
}

std::unique_ptr<UcxNetwork> make_ucx(const ProcessTransportOptions& options) {
  const TransportChoice& choice = own_choice(options.transport);
  return choice.tls != nullptr ? std::make_unique<UcxNetwork>(choice, options) : nullptr;
}

bool wants_tcp(const ProcessTransportOptions& options) {
  switch (own_choice(options.transport).tcp) {
    case TransportChoice::Tcp::None:
      return false;
    case TransportChoice::Tcp::BetweenHosts:
      return options.hosts == ProcessTransportOptions::Hosts::Several;
    case TransportChoice::Tcp::Always:
      return true;
  }
  return false;
}

}  // namespace

RoutedTransport::Impl::Impl(task::Executor& executor, task::PendingOps& pending,
                            ProcessTransportOptions given)
    : executor(executor),
      pending(pending),
      options(std::move(given)),
      ucx(make_ucx(options)),
      regions(ucx ? ucx->memory().regions() : heap),
      page_region(ucx ? ucx->memory().allocate(SignalPage::bytes_for(options.signals))
                      : allocate_on_heap(heap, options.rank, SignalPage::bytes_for(options.signals))),
      page(page_region.bytes()),
      inbox({options.rank, options.world_size, options.job_epoch, options.signals}, completions, regions,
            page),
      tcp(wants_tcp(options) ? std::make_unique<tcp::TcpNetwork>(executor, options, inbox, completions)
                             : nullptr),
      awaiting(page) {
  if (options.sleeps == ProcessTransportOptions::Sleeps::Rarely && fence == RemoteFence::Available)
    page.announce_fences();
  if (ucx) ucx->open(inbox, page);
  if (ucx && tcp) tcp->watch_also(ucx->event_fd());
}

RoutedTransport::Impl::~Impl() {
  const bool clean = !pending.cancelled();
  const Network::End end = clean ? Network::End::InOrder : Network::End::AtOnce;
  if (clean) drain();
  page_region = {};
  if (tcp) tcp->close(end);
  if (ucx) ucx->close(end);
}

void RoutedTransport::Impl::connect(const std::vector<PeerInfo>& infos) {
  TAXON_CHECK(peers.empty(), "connected twice");
  TAXON_CHECK(infos.size() == static_cast<std::size_t>(options.world_size), infos.size(), " addresses");
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const Rank rank(static_cast<std::int32_t>(i));
    peers.push_back(is_self(rank) ? nullptr : reach(rank, infos[i]));
  }
}

std::unique_ptr<NetworkPeer> RoutedTransport::Impl::reach(Rank rank, const PeerInfo& info) {
  const Cards cards = unpack(ConstView(info.address.data(), info.address.size()));
  if (ucx && cards.ucx.size() > 0) {
    Card card = Card::unpack(cards.ucx);
    const bool local = ucx->may_share_memory() && info.host == options.host;
    const bool far = !local && ucx->has_network() && !card.network.empty() &&
                     options.encryption == ProcessTransportOptions::Encryption::None;
    if (local || far)
      return ucx->connect(rank, local ? UcxPeer::Locality::SameHost : UcxPeer::Locality::OtherHost,
                          std::move(card), executor, completions);
  }
  if (tcp && cards.tcp.size() > 0) return tcp->connect(rank, cards.tcp);
  throw Error(ErrorKind::Transport,
              fmt::format("transport \"{}\" has no way from rank {} on host {} to rank {} on host {}: choose "
                          "another transport.kind (tcp has one)",
                          options.transport, options.rank.value(), options.host, rank.value(), info.host));
}

NetworkPeer& RoutedTransport::Impl::peer(Rank rank) {
  TAXON_CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < peers.size() && !is_self(rank),
              "rank ", rank.value(), " of ", peers.size());
  return *peers[static_cast<std::size_t>(rank.value())];
}

bool RoutedTransport::Impl::send(Op& op) {
  NetworkPeer& to = peer(op.peer);
  to.reach();
  if (to.lost) {
    op.complete(to.lost);
    return true;
  }
  return !to.start(op);
}

void RoutedTransport::Impl::put_here(const PutOp& op) {
  if (!op.payload.empty())
    std::memcpy(reinterpret_cast<std::byte*>(op.region->address) + op.offset, op.payload.data(),
                op.payload.size());
  page.raise(op.signal.index, op.value);
}

void RoutedTransport::Impl::put_mapped(NetworkPeer& to, const PutOp& op) {
  if (!op.payload.empty()) {
    View target = to.map(*op.region);
    if (target.empty())
      throw Error(ErrorKind::Transport,
                  fmt::format("a region of rank {} on this host can't be mapped", to.rank.value()));
    std::memcpy(target.data() + op.offset, op.payload.data(), op.payload.size());
  }
  raise_mapped(to, op.signal, op.value);
}

void RoutedTransport::Impl::raise_mapped(NetworkPeer& to, RemoteSignal signal, std::uint64_t value) {
  to.page.raise(signal.index, value);
  if (to.page.must_wake(fence)) to.wake();
}

bool RoutedTransport::Impl::progress() {
  bool worked = false;
  if (ucx) worked |= ucx->poll();
  if (tcp) worked |= tcp->poll();
  return worked;
}

/// Answers who asked what has come, and hears of what was asked.
void RoutedTransport::Impl::confirm() {
  for (Rank asker : inbox.take_asked())
    if (NetworkPeer& to = peer(asker); !to.lost)
      to.confirm({executor.now().time_since_epoch(), inbox.arrivals().share(executor.now())});
  for (const Inbox::Confirmed& confirmed : inbox.take_confirmed()) {
    if (peer(confirmed.by).confirmed(confirmed.what)) continue;
    const std::string what = fmt::format("rank {} confirmed what rank {} had not asked about",
                                         confirmed.by.value(), options.rank.value());
    return pending.cancel(std::make_exception_ptr(
        Error(ErrorKind::Transport, what, ErrorContext{confirmed.by, "connection", {}})));
  }
}

bool RoutedTransport::Impl::look_for_signals() {
  for (int look = 0; look < kSignalLooks; ++look) {
    if (awaiting.complete_or_collect(completions)) return true;
#if defined(__x86_64__)
    if (look % kLooksPerPause == 0) __builtin_ia32_pause();
#endif
  }
  return false;
}

bool RoutedTransport::Impl::poll() {
  looked_ = false;
  bool worked = false;
  if (!awaiting.empty()) {
    worked |= look_for_signals();
    worked |= completions.run();
    if (++polls_ % kPollsPerProgress != 0) return worked;
  }
  worked |= awaiting.collect(completions);
  worked |= progress();
  confirm();
  worked |= awaiting.collect(completions);  // of puts that came as messages
  worked |= completions.run();
  look_for_failures();
  looked_ = !worked;
  return worked;
}

bool RoutedTransport::Impl::needs(const NetworkPeer& peer) const {
  return peer.has_queue() || inbox.awaits(peer.rank) || awaiting.expects(peer.rank);
}

void RoutedTransport::Impl::look_for_failures() {
  if (inbox.broken()) return pending.cancel(inbox.broken());
  for (auto& peer : peers) {
    if (!peer || !peer->lost_is_news) continue;
    peer->lost_is_news = false;
    // A peer that is done closes its connections; that is nothing to those who need nothing more of it.
    const auto& expendable = options.expendable;
    if (std::find(expendable.begin(), expendable.end(), peer->rank) != expendable.end()) continue;
    if (needs(*peer)) return pending.cancel(peer->lost);
  }
}

bool RoutedTransport::Impl::arm() {
  if (!completions.empty()) return false;
  // A network's descriptor tells of what comes from now on, not of what the last look has left.
  if (!looked_) {
    polls_ = kPollsPerProgress - 1;
    return false;
  }
  if (tcp && !tcp->arm()) return false;
  page.announce_sleep();
  if (awaiting.any_is_up()) return false;
  return !ucx || ucx->arm();
}

void RoutedTransport::Impl::drain() {
  const Instant limit = executor.now() + kDrainLimit;
  while (executor.now() < limit && !((!ucx || ucx->is_drained()) && (!tcp || tcp->is_drained()))) {
    if (!progress()) sched_yield();
    confirm();
  }
}

RoutedTransport::RoutedTransport(task::Executor& executor, task::PendingOps& pending,
                                 ProcessTransportOptions options)
    : impl_(std::make_unique<Impl>(executor, pending, std::move(options))) {}

RoutedTransport::~RoutedTransport() = default;

PeerInfo RoutedTransport::self() const {
  std::vector<std::byte> ucx, tcp;
  if (impl_->ucx) ucx = impl_->ucx->card(impl_->page_region).pack();
  if (impl_->tcp) tcp = impl_->tcp->card();
  return {pack(ucx, tcp), impl_->options.host};
}
void RoutedTransport::connect(const std::vector<PeerInfo>& peers) { impl_->connect(peers); }

void RoutedTransport::start(SendOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  if (!impl_->is_self(op.peer)) impl_->traffic.count_sent(op.payload.size());
  if (impl_->is_self(op.peer))
    impl_->inbox.deliver_own(op);
  else if (impl_->send(op))
    return;
  op.complete();
}

void RoutedTransport::start(RecvOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  impl_->inbox.start(op);
  if (op.done() || impl_->is_self(op.peer) || !impl_->peer(op.peer).lost) return;
  impl_->inbox.forget(op);
  op.complete(impl_->peer(op.peer).lost);
}

void RoutedTransport::start(PutOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  if (!impl_->is_self(op.peer)) impl_->traffic.count_sent(op.payload.size());
  if (impl_->is_self(op.peer)) {
    impl_->put_here(op);
  } else if (NetworkPeer& peer = impl_->peer(op.peer); peer.shares_memory()) {
    try {
      impl_->put_mapped(peer, op);
    } catch (const Error&) {
      return op.complete(std::current_exception());
    }
  } else if (impl_->send(op)) {
    return;
  }
  op.complete();
}

bool RoutedTransport::raise_now(RemoteSignal signal, std::uint64_t value) {
  if (impl_->is_self(signal.owner) || impl_->pending.cancelled()) return false;
  NetworkPeer& peer = impl_->peer(signal.owner);
  if (!peer.shares_memory()) return false;
  impl_->traffic.count_sent(0);
  impl_->raise_mapped(peer, signal, value);
  return true;
}

void RoutedTransport::start(AwaitSignalOp& op) {
  op.seen = impl_->page.value(op.index);
  if (op.seen >= op.value) return op.complete();
  if (!impl_->is_self(op.peer) && impl_->peer(op.peer).lost) return op.complete(impl_->peer(op.peer).lost);
  impl_->awaiting.add(op);
}

void RoutedTransport::forget(Op& op) {
  if (impl_->completions.forget(op)) return;
  if (auto* receive = dynamic_cast<RecvOp*>(&op)) {
    TAXON_CHECK(impl_->inbox.forget(*receive), "an unknown receive was cancelled");
  } else if (auto* await = dynamic_cast<AwaitSignalOp*>(&op)) {
    impl_->awaiting.forget(*await);
  } else {
    TAXON_CHECK(impl_->peer(op.peer).forget(op), "an unknown send was cancelled");
  }
}

Region RoutedTransport::allocate(std::size_t size) {
  return impl_->ucx ? impl_->ucx->memory().allocate(size)
                    : allocate_on_heap(impl_->heap, impl_->options.rank, size);
}

View RoutedTransport::map(const RemoteRegion& region) {
  if (impl_->is_self(region.owner)) return View(reinterpret_cast<std::byte*>(region.address), region.size);
  NetworkPeer& owner = impl_->peer(region.owner);
  return owner.shares_memory() ? owner.map(region) : View();
}

std::uint32_t RoutedTransport::signals() const { return impl_->options.signals; }
std::uint64_t RoutedTransport::signal(std::uint32_t index) const { return impl_->page.value(index); }

Path RoutedTransport::path(Rank rank) const {
  if (impl_->is_self(rank)) return {"own memory", true};
  return impl_->peer(rank).path();
}

const Traffic& RoutedTransport::traffic() const {
  impl_->traffic.bytes_received = impl_->inbox.bytes_received();
  return impl_->traffic;
}

void RoutedTransport::count_stored(std::size_t bytes) { impl_->traffic.bytes_sent += bytes; }
Rank RoutedTransport::rank() const { return impl_->options.rank; }
int RoutedTransport::world_size() const { return impl_->options.world_size; }
task::Executor& RoutedTransport::executor() { return impl_->executor; }
task::PendingOps& RoutedTransport::pending() { return impl_->pending; }

bool RoutedTransport::poll() { return impl_->poll(); }
int RoutedTransport::event_fd() { return impl_->tcp ? impl_->tcp->event_fd() : impl_->ucx->event_fd(); }
bool RoutedTransport::arm() { return impl_->arm(); }
void RoutedTransport::disarm() { impl_->page.announce_awake(); }

std::uint64_t RoutedTransport::stale_fragments() const { return impl_->inbox.stale(); }
void RoutedTransport::drain() { impl_->drain(); }

const UcxPeer* RoutedTransport::ucx_peer(Rank rank) const {
  return dynamic_cast<const UcxPeer*>(&impl_->peer(rank));
}
const tcp::TcpNetwork* RoutedTransport::tcp() const { return impl_->tcp.get(); }

}  // namespace taxon::net
