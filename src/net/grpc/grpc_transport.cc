#include "net/grpc/grpc_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "net/grpc/calls.h"
#include "net/grpc/grpc_peer.h"
#include "net/grpc/listener.h"
#include "net/heap_region.h"
#include "net/wire/awaited_signals.h"
#include "net/wire/inbox.h"

namespace taxon::net {
namespace {

constexpr Duration kDrainTime = std::chrono::seconds(2);
constexpr std::chrono::milliseconds kDrainLook(20);

/// The same variable as for UCX, so that both take the same way.
std::array<std::uint64_t, 2> random_token() {
  std::random_device chance;
  auto word = [&] { return (std::uint64_t{chance()} << 32) | chance(); };
  const std::uint64_t first = word();
  return {first, word()};
}

}  // namespace

class GrpcTransport::Impl {
 public:
  Impl(task::Executor& executor, task::PendingOps& pending, ProcessTransportOptions options, Calls calls);
  ~Impl();

  void connect(const std::vector<PeerInfo>& infos);
  GrpcPeer& peer(Rank rank);
  bool is_self(Rank rank) const { return rank == options.rank; }
  /// True if the op is not to be completed now: it will be, or it failed.
  bool send(Op& op);
  void put_here(const PutOp& op);
  bool poll();
  bool arm();
  void drain(Instant limit);

  task::Executor& executor;
  task::PendingOps& pending;
  const ProcessTransportOptions options;
  const Calls calls;
  const std::vector<Interface> interfaces;
  const std::array<std::uint64_t, 2> token = random_token();
  const std::shared_ptr<Events> events = std::make_shared<Events>();
  RegionTable regions;
  Region page_region;
  SignalPage page;
  Completions completions;
  Inbox inbox;
  AwaitedSignals awaiting;
  std::vector<std::unique_ptr<GrpcPeer>> peers;  // by rank; null at the own one
  Traffic traffic;
  std::optional<Listener> listener;

 private:
  bool run_events();
  void handle(FragmentCame& came);
  void handle(HungUp& gone) { lose(gone.source, "the rank ended the connection (gRPC)"); }
  void handle(LineFree& free) { peer(free.peer).line_free(); }
  void handle(LineEnding& ending) { peer(ending.peer).line().let_go(); }
  void handle(SendFailed& failed);
  void handle(LineClosed& closed);
  void lose(Rank rank, const std::string& why) { peer(rank).fail(why); }
  void look_for_failures();
  /// Handles events until `over` or `limit`.
  template <class Condition>
  void wait_until(Condition over, Instant limit);
  template <class Condition>
  bool all_peers(Condition holds) const;
};

GrpcTransport::Impl::Impl(task::Executor& executor, task::PendingOps& pending, ProcessTransportOptions given,
                          Calls calls)
    : executor(executor),
      pending(pending),
      options(std::move(given)),
      calls(calls),
      interfaces(find_interfaces(options.address)),
      page_region(allocate_on_heap(regions, options.rank, SignalPage::bytes_for(options.signals))),
      page(page_region.bytes()),
      inbox({options.rank, options.world_size, options.job_epoch, options.signals}, completions, regions,
            page),
      awaiting(page),
      listener(std::in_place, options.world_size, interfaces, token, events) {}

GrpcTransport::Impl::~Impl() {
  const Instant limit = executor.now() + kDrainTime;
  if (!pending.cancelled()) {
    drain(limit);
    for (auto& peer : peers)
      if (peer && peer->idle()) peer->line().hang_up();
    wait_until([&] { return all_peers([](GrpcPeer& peer) { return peer.lost() || peer.closed(); }); }, limit);
  }
  for (auto& peer : peers)
    if (peer) peer->line().cancel();
  wait_until([&] { return all_peers([](GrpcPeer& peer) { return peer.closed(); }); },
             executor.now() + kDrainTime);
  for (Event& event : events->close())
    if (auto* came = std::get_if<FragmentCame>(&event)) came->arrival->taken();
  listener.reset();
}

void GrpcTransport::Impl::connect(const std::vector<PeerInfo>& infos) {
  TAXON_CHECK(peers.empty(), "connected twice");
  TAXON_CHECK(infos.size() == static_cast<std::size_t>(options.world_size), infos.size(), " addresses");
  std::vector<Line::Setting> lines;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const Rank rank(static_cast<std::int32_t>(i));
    const GrpcCard card = GrpcCard::unpack(ConstView(infos[i].address.data(), infos[i].address.size()));
    const Locality place = infos[i].host == options.host ? Locality::SameHost : Locality::OtherHost;
    const std::vector<Endpoint> ways = reachable(card.endpoints, place, interfaces);
    if (ways.empty() && !is_self(rank))
      throw Error(ErrorKind::Transport,
                  fmt::format("rank {} on host {} has no IPv4 address that host {} could reach", i,
                              infos[i].host, options.host));
    lines.push_back({options.rank, rank, target_of(ways), token_text(card.token), events});
  }
  auto open = calls == Calls::Streaming ? open_streaming_line : open_unary_line;
  for (Line::Setting& line : lines) {
    const GrpcPeer::Setting setting{options.rank, line.peer, options.job_epoch, options.payload_checksums};
    peers.push_back(is_self(line.peer) ? nullptr
                                       : std::make_unique<GrpcPeer>(setting, open(line), completions));
  }
}

GrpcPeer& GrpcTransport::Impl::peer(Rank rank) {
  TAXON_CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < peers.size() && !is_self(rank),
              "rank ", rank.value(), " of ", peers.size());
  return *peers[static_cast<std::size_t>(rank.value())];
}

bool GrpcTransport::Impl::send(Op& op) {
  GrpcPeer& to = peer(op.peer);
  if (to.lost()) {
    op.complete(to.lost());
    return true;
  }
  return !to.start(op);
}

void GrpcTransport::Impl::put_here(const PutOp& op) {
  if (!op.payload.empty())
    std::memcpy(reinterpret_cast<std::byte*>(op.region->address) + op.offset, op.payload.data(),
                op.payload.size());
  page.raise(op.signal.index, op.value);
}

void GrpcTransport::Impl::handle(FragmentCame& came) {
  const ConstView bytes(reinterpret_cast<const std::byte*>(came.bytes.begin()), came.bytes.size());
  const std::size_t head = std::min(bytes.size(), sizeof(WireHeader));
  inbox.arrived(bytes.slice(0, head), bytes.slice(head, bytes.size() - head));
  came.arrival->taken();
}

void GrpcTransport::Impl::handle(SendFailed& failed) {
  peer(failed.peer).send_failed();
  if (!failed.why.empty()) lose(failed.peer, failed.why);
}

void GrpcTransport::Impl::handle(LineClosed& closed) {
  peer(closed.peer).line_closed();
  lose(closed.peer, closed.why);
}

bool GrpcTransport::Impl::run_events() {
  std::vector<Event> came = events->take();
  for (Event& event : came) std::visit([this](auto& one) { handle(one); }, event);
  return !came.empty();
}

void GrpcTransport::Impl::look_for_failures() {
  if (inbox.broken()) return pending.cancel(inbox.broken());
  for (std::size_t r = 0; r < peers.size(); ++r) {
    const std::exception_ptr lost = peers[r] ? peers[r]->take_news() : nullptr;
    if (!lost) continue;
    // A peer that is done ends its calls; that is nothing to those who need nothing more of it.
    const Rank rank(static_cast<std::int32_t>(r));
    const auto& expendable = options.expendable;
    if (std::find(expendable.begin(), expendable.end(), rank) != expendable.end()) continue;
    if (peers[r]->has_queue() || inbox.awaits(rank) || awaiting.expects(rank)) return pending.cancel(lost);
  }
}

bool GrpcTransport::Impl::poll() {
  bool worked = run_events();
  worked |= awaiting.collect(completions);
  worked |= completions.run();
  look_for_failures();
  return worked;
}

bool GrpcTransport::Impl::arm() {
  if (!completions.empty() || awaiting.any_is_up()) return false;
  return events->arm();
}

void GrpcTransport::Impl::drain(Instant limit) {
  wait_until([&] { return all_peers([](GrpcPeer& peer) { return peer.lost() || peer.idle(); }); }, limit);
}

template <class Condition>
void GrpcTransport::Impl::wait_until(Condition over, Instant limit) {
  while (!over() && executor.now() < limit)
    if (!run_events()) events->wait(kDrainLook);
}

template <class Condition>
bool GrpcTransport::Impl::all_peers(Condition holds) const {
  return std::all_of(peers.begin(), peers.end(), [&](const auto& peer) { return !peer || holds(*peer); });
}

GrpcTransport::GrpcTransport(task::Executor& executor, task::PendingOps& pending,
                             ProcessTransportOptions options, Calls calls)
    : impl_(std::make_unique<Impl>(executor, pending, std::move(options), calls)) {}

GrpcTransport::~GrpcTransport() = default;

PeerInfo GrpcTransport::self() const {
  return {GrpcCard{impl_->token, impl_->listener->endpoints()}.pack(), impl_->options.host};
}
void GrpcTransport::connect(const std::vector<PeerInfo>& peers) { impl_->connect(peers); }

void GrpcTransport::start(SendOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  if (impl_->is_self(op.peer)) {
    impl_->inbox.deliver_own(op);
    return op.complete();
  }
  impl_->traffic.count_sent(op.payload.size());
  if (!impl_->send(op)) op.complete();
}

void GrpcTransport::start(RecvOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  impl_->inbox.start(op);
  if (op.done() || impl_->is_self(op.peer) || !impl_->peer(op.peer).lost()) return;
  impl_->inbox.forget(op);
  op.complete(impl_->peer(op.peer).lost());
}

void GrpcTransport::start(PutOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  if (impl_->is_self(op.peer)) {
    impl_->put_here(op);
    return op.complete();
  }
  impl_->traffic.count_sent(op.payload.size());
  if (!impl_->send(op)) op.complete();
}

void GrpcTransport::start(AwaitSignalOp& op) {
  op.seen = impl_->page.value(op.index);
  if (op.seen >= op.value) return op.complete();
  if (!impl_->is_self(op.peer) && impl_->peer(op.peer).lost())
    return op.complete(impl_->peer(op.peer).lost());
  impl_->awaiting.add(op);
}

void GrpcTransport::forget(Op& op) {
  if (impl_->completions.forget(op)) return;
  if (auto* receive = dynamic_cast<RecvOp*>(&op)) {
    TAXON_CHECK(impl_->inbox.forget(*receive), "an unknown receive was cancelled");
  } else if (auto* await = dynamic_cast<AwaitSignalOp*>(&op)) {
    impl_->awaiting.forget(*await);
  } else {
    TAXON_CHECK(impl_->peer(op.peer).forget(op), "an unknown send was cancelled");
  }
}

Region GrpcTransport::allocate(std::size_t size) {
  return allocate_on_heap(impl_->regions, impl_->options.rank, size);
}

View GrpcTransport::map(const RemoteRegion& region) {
  if (!impl_->is_self(region.owner)) return {};
  return View(reinterpret_cast<std::byte*>(region.address), region.size);
}

std::uint32_t GrpcTransport::signals() const { return impl_->options.signals; }
std::uint64_t GrpcTransport::signal(std::uint32_t index) const { return impl_->page.value(index); }

Path GrpcTransport::path(Rank rank) const {
  if (impl_->is_self(rank)) return {"own memory", true};
  const std::string interface = interface_towards(impl_->peer(rank).line().address(), impl_->interfaces);
  return {fmt::format("{} over tcp{}{}", impl_->calls == Calls::Streaming ? "grpc" : "grpc-unary",
                      interface.empty() ? "" : " ", interface),
          false, GrpcPeer::kFragment};
}

const Traffic& GrpcTransport::traffic() const {
  impl_->traffic.bytes_received = impl_->inbox.bytes_received();
  return impl_->traffic;
}

void GrpcTransport::count_stored(std::size_t bytes) { impl_->traffic.bytes_sent += bytes; }
Rank GrpcTransport::rank() const { return impl_->options.rank; }
int GrpcTransport::world_size() const { return impl_->options.world_size; }
task::Executor& GrpcTransport::executor() { return impl_->executor; }
task::PendingOps& GrpcTransport::pending() { return impl_->pending; }

bool GrpcTransport::poll() { return impl_->poll(); }
int GrpcTransport::event_fd() { return impl_->events->fd(); }
bool GrpcTransport::arm() { return impl_->arm(); }
void GrpcTransport::disarm() { impl_->events->disarm(); }

std::uint64_t GrpcTransport::stale_fragments() const { return impl_->inbox.stale(); }
void GrpcTransport::drain() { impl_->drain(impl_->executor.now() + kDrainTime); }

}  // namespace taxon::net
