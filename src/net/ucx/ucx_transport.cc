#include "net/ucx/ucx_transport.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "net/describe.h"
#include "net/ucx/peer.h"
#include "net/wire/awaited_signals.h"
#include "net/wire/inbox.h"

namespace taxon::net {
namespace {

/// What one piece of a path carries without being cut by UCX and put together at the other end in memory of
/// its own: its send buffers less its headers and ours.
constexpr std::size_t kSharedFragment = 8000;
constexpr std::size_t kNetworkFragment = Outbox::kLargestFragment;
/// Rounds of progress per poll before other work gets its turn.
constexpr int kProgressRounds = 16;
/// While signals are awaited, a poll looks at them this often before it progresses UCX, and that only every
/// few polls: a look costs a few nanoseconds, progress a system call for each TCP device.
constexpr int kSignalLooks = 32;
constexpr int kLooksPerPause = 4;  // a pause is for who shares the core; it takes longer than some looks
constexpr int kPollsPerProgress = 16;
constexpr Duration kDrainLimit = std::chrono::seconds(2);

}  // namespace

class UcxTransport::Impl {
 public:
  Impl(task::Executor& executor, task::Waits& waits, ProcessTransportOptions options);
  ~Impl();

  void connect(const std::vector<PeerInfo>& peers);
  Card card() const;
  Peer& peer(Rank rank);
  /// With an endpoint, unless it is lost.
  Peer& reach(Rank rank);
  bool is_self(Rank rank) const { return rank == options.rank; }

  /// True if the op is not to be completed now: it will be, or it failed.
  bool send(Op& op);
  void put_here(const PutOp& op);
  void put_mapped(Peer& peer, const PutOp& op);
  void raise_mapped(Peer& peer, RemoteSignal signal, std::uint64_t value);
  bool poll();
  bool arm();
  bool look_for_signals();

  task::Executor& executor;
  task::Waits& waits;
  const ProcessTransportOptions options;
  UcxContext context;
  UcxMemory memory;
  Region page_region;
  SignalPage page;
  const RemoteFence fence = join_remote_fences();
  Completions completions;
  Inbox inbox;
  std::vector<std::unique_ptr<Peer>> peers;  // by rank; null at the own one
  std::vector<Peer*> busy;                   // with something queued
  AwaitedSignals awaiting;
  Traffic traffic;

 private:
  static ucs_status_t fragment_arrived(void* self, const void* header, std::size_t header_size, void* data,
                                       std::size_t size, const ucp_am_recv_param_t* param);
  static ucs_status_t wake_arrived(void*, const void*, std::size_t, void*, std::size_t,
                                   const ucp_am_recv_param_t*) {
    return UCS_OK;
  }
  void handle(unsigned id, ucp_am_recv_callback_t callback);
  bool pump();
  void confirm();
  unsigned polls_ = 0;  // while signals were awaited
  bool needs(const Peer& peer) const;
  void look_for_failures();
  void drain();
  void close_endpoints();
};

UcxTransport::Impl::Impl(task::Executor& executor, task::Waits& waits, ProcessTransportOptions given)
    : executor(executor),
      waits(waits),
      options(std::move(given)),
      context(find_transport_choice(options.transport), options.devices),
      memory(context, options.rank),
      page_region(memory.allocate(SignalPage::bytes_for(options.signals))),
      page(page_region.bytes()),
      inbox({options.rank, options.world_size, options.job_epoch, options.signals}, completions,
            memory.regions(), page),
      awaiting(page) {
  if (options.sleeps == ProcessTransportOptions::Sleeps::Rarely && fence == RemoteFence::Available)
    page.announce_fences();
  page.nonce() = (std::uint64_t{std::random_device()()} << 32) | std::random_device()();
  handle(kFragmentMessage, &Impl::fragment_arrived);
  handle(kWakeMessage, &Impl::wake_arrived);
}

UcxTransport::Impl::~Impl() {
  bool clean = !waits.cancelled();
  if (clean) drain();
  memory.unmap_all();
  page_region = {};
  if (clean)
    close_endpoints();
  else
    context.abandon();
  context.close();  // before the outboxes, whose fragments it may still hold
}

void UcxTransport::Impl::handle(unsigned id, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t param{};
  param.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.cb = callback;
  param.arg = this;
  if (ucs_status_t status = ucp_worker_set_am_recv_handler(context.worker(), &param); status != UCS_OK)
    throw ucx_error("UCX refuses a message handler", status);
}

ucs_status_t UcxTransport::Impl::fragment_arrived(void* self, const void* header, std::size_t header_size,
                                                  void* data, std::size_t size,
                                                  const ucp_am_recv_param_t* param) {
  TAXON_CHECK((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0, "fragments are sent eagerly");
  static_cast<Impl*>(self)->inbox.arrived(ConstView(static_cast<const std::byte*>(header), header_size),
                                          ConstView(static_cast<const std::byte*>(data), size));
  return UCS_OK;
}

Card UcxTransport::Impl::card() const {
  return {page.nonce(), context.address(UcxContext::AddressOf::All),
          context.address(UcxContext::AddressOf::NetworkOnly), page_region.share().pack()};
}

void UcxTransport::Impl::connect(const std::vector<PeerInfo>& infos) {
  TAXON_CHECK(peers.empty(), "connected twice");
  TAXON_CHECK(infos.size() == static_cast<std::size_t>(options.world_size), infos.size(), " addresses");
  for (std::size_t i = 0; i < infos.size(); ++i) {
    Rank rank(static_cast<std::int32_t>(i));
    if (is_self(rank)) {
      peers.push_back(nullptr);
      continue;
    }
    bool local = context.may_share_memory() && infos[i].host == options.host;
    Outbox::Setting setting{
        options.rank,
        rank,
        options.job_epoch,
        options.payload_checksums == PayloadChecksums::On ? Checksums::Payload : Checksums::Header,
        local ? kSharedFragment : kNetworkFragment,
        local || options.on_its_way == ProcessTransportOptions::OnItsWay::AsTcpAllows ? nullptr : &executor};
    Card card = Card::unpack(ConstView(infos[i].address.data(), infos[i].address.size()));
    peers.push_back(std::make_unique<Peer>(rank, local ? Peer::Place::SameHost : Peer::Place::OtherHost,
                                           std::move(card), setting, completions));
    if (!local) continue;
    Peer& peer = reach(rank);
    if (peer.lost) std::rethrow_exception(peer.lost);
    peer.map_page(memory, options.signals);
  }
}

Peer& UcxTransport::Impl::peer(Rank rank) {
  TAXON_CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < peers.size() && !is_self(rank),
              "rank ", rank.value(), " of ", peers.size());
  return *peers[static_cast<std::size_t>(rank.value())];
}

Peer& UcxTransport::Impl::reach(Rank rank) {
  Peer& found = peer(rank);
  found.connect(context);
  return found;
}

bool UcxTransport::Impl::send(Op& op) {
  Peer& to = reach(op.peer);
  if (to.lost) {
    op.complete(to.lost);
    return true;
  }
  bool was_busy = to.outbox.has_queue();
  if (to.outbox.start(op)) return false;
  if (!was_busy) busy.push_back(&to);
  return true;
}

void UcxTransport::Impl::put_here(const PutOp& op) {
  if (!op.payload.empty())
    std::memcpy(reinterpret_cast<std::byte*>(op.region->address) + op.offset, op.payload.data(),
                op.payload.size());
  page.raise(op.signal.index, op.value);
}

void UcxTransport::Impl::put_mapped(Peer& to, const PutOp& op) {
  if (!op.payload.empty()) {
    View target = memory.map(to.endpoint(), *op.region);
    if (target.empty())
      throw Error(ErrorKind::Transport,
                  fmt::format("a region of rank {} on this host can't be mapped", to.rank.value()));
    std::memcpy(target.data() + op.offset, op.payload.data(), op.payload.size());
  }
  raise_mapped(to, op.signal, op.value);
}

void UcxTransport::Impl::raise_mapped(Peer& to, RemoteSignal signal, std::uint64_t value) {
  to.page.raise(signal.index, value);
  if (to.page.must_wake(fence)) to.wake();
}

bool UcxTransport::Impl::pump() {
  bool worked = false;
  for (Peer* peer : busy) {
    worked |= peer->outbox.pump();
    if (peer->outbox.failure() != UCS_OK) peer->fail(peer->outbox.failure());
  }
  std::erase_if(busy, [](const Peer* peer) { return !peer->outbox.has_queue() || peer->lost; });
  return worked;
}

/// Answers who asked what has come, and hears of what was asked.
void UcxTransport::Impl::confirm() {
  for (Rank asker : inbox.take_asked())
    if (Peer& to = reach(asker); !to.lost)
      to.confirm({executor.now().time_since_epoch(), inbox.arrivals().share(executor.now())});
  for (const Inbox::Confirmed& confirmed : inbox.take_confirmed()) {
    if (peer(confirmed.by).outbox.confirm(confirmed.what)) continue;
    const std::string what = fmt::format("rank {} confirmed what rank {} had not asked about",
                                         confirmed.by.value(), options.rank.value());
    return waits.cancel(std::make_exception_ptr(
        Error(ErrorKind::Transport, what, ErrorContext{confirmed.by, "connection", {}})));
  }
}

bool UcxTransport::Impl::look_for_signals() {
  for (int look = 0; look < kSignalLooks; ++look) {
    if (awaiting.complete_or_collect(completions)) return true;
#if defined(__x86_64__)
    if (look % kLooksPerPause == 0) __builtin_ia32_pause();
#endif
  }
  return false;
}

bool UcxTransport::Impl::poll() {
  if (!awaiting.empty()) {
    bool worked = look_for_signals();
    worked |= completions.run();
    if (++polls_ % kPollsPerProgress != 0) return worked;
  }
  bool worked = awaiting.collect(completions);
  for (int round = 0; round < kProgressRounds && ucp_worker_progress(context.worker()) != 0; ++round)
    worked = true;
  confirm();
  if (!busy.empty()) worked |= pump();
  worked |= awaiting.collect(completions);  // of puts that came as messages
  worked |= completions.run();
  look_for_failures();
  return worked;
}

bool UcxTransport::Impl::needs(const Peer& peer) const {
  return peer.outbox.has_queue() || inbox.awaits(peer.rank) || awaiting.expects(peer.rank);
}

void UcxTransport::Impl::look_for_failures() {
  if (inbox.broken()) return waits.cancel(inbox.broken());
  for (auto& peer : peers) {
    if (!peer || !peer->lost_is_news) continue;
    peer->lost_is_news = false;
    // A peer that is done closes its connections; that is nothing to those who need nothing more of it.
    const auto& spared = options.spared;
    if (std::find(spared.begin(), spared.end(), peer->rank) != spared.end()) continue;
    if (needs(*peer)) return waits.cancel(peer->lost);
  }
}

bool UcxTransport::Impl::arm() {
  if (!completions.empty()) return false;
  if (std::any_of(busy.begin(), busy.end(), [](const Peer* peer) { return peer->outbox.ready(); }))
    return false;
  page.announce_sleep();
  if (awaiting.any_is_up()) return false;
  return ucp_worker_arm(context.worker()) == UCS_OK;
}

void UcxTransport::Impl::drain() {
  Instant limit = executor.now() + kDrainLimit;
  auto busy_still = [&] {
    return std::any_of(peers.begin(), peers.end(), [](const auto& peer) {
      return peer && !peer->lost && peer->outbox.failure() == UCS_OK && !peer->outbox.idle();
    });
  };
  auto progress = [&] {
    if (ucp_worker_progress(context.worker()) == 0) sched_yield();
    confirm();
    pump();
  };
  while (busy_still() && executor.now() < limit) progress();
  ucp_request_param_t param{};
  ucs_status_ptr_t flush = ucp_worker_flush_nbx(context.worker(), &param);
  if (!UCS_PTR_IS_PTR(flush)) return;
  while (ucp_request_check_status(flush) == UCS_INPROGRESS && executor.now() < limit) progress();
  ucp_request_free(flush);
}

void UcxTransport::Impl::close_endpoints() {
  std::vector<ucs_status_ptr_t> closing;
  for (auto& peer : peers)
    if (ucs_status_ptr_t request = peer ? peer->close() : nullptr) closing.push_back(request);
  Instant limit = executor.now() + kDrainLimit;
  for (ucs_status_ptr_t request : closing) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS && executor.now() < limit)
      ucp_worker_progress(context.worker());
    ucp_request_free(request);
  }
}

UcxTransport::UcxTransport(task::Executor& executor, task::Waits& waits, ProcessTransportOptions options)
    : impl_(std::make_unique<Impl>(executor, waits, std::move(options))) {}

UcxTransport::~UcxTransport() = default;

PeerInfo UcxTransport::self() const { return {impl_->card().pack(), impl_->options.host}; }
void UcxTransport::connect(const std::vector<PeerInfo>& peers) { impl_->connect(peers); }

void UcxTransport::start(SendOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  if (!impl_->is_self(op.peer)) impl_->traffic.count_sent(op.payload.size());
  if (impl_->is_self(op.peer))
    impl_->inbox.deliver_own(op);
  else if (impl_->send(op))
    return;
  op.complete();
}

void UcxTransport::start(RecvOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  impl_->inbox.start(op);
  if (op.done() || impl_->is_self(op.peer) || !impl_->peer(op.peer).lost) return;
  impl_->inbox.forget(op);
  op.complete(impl_->peer(op.peer).lost);
}

void UcxTransport::start(PutOp& op) {
  TAXON_CHECK(!op.payload.is_phantom(), "phantoms travel in virtual worlds only");
  if (!impl_->is_self(op.peer)) impl_->traffic.count_sent(op.payload.size());
  if (impl_->is_self(op.peer)) {
    impl_->put_here(op);
  } else if (Peer& peer = impl_->peer(op.peer); peer.shares_memory()) {
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

bool UcxTransport::raise_now(RemoteSignal signal, std::uint64_t value) {
  if (impl_->is_self(signal.owner) || impl_->waits.cancelled()) return false;
  Peer& peer = impl_->peer(signal.owner);
  if (!peer.shares_memory()) return false;
  impl_->traffic.count_sent(0);
  impl_->raise_mapped(peer, signal, value);
  return true;
}

void UcxTransport::start(AwaitSignalOp& op) {
  op.seen = impl_->page.value(op.index);
  if (op.seen >= op.value) return op.complete();
  if (!impl_->is_self(op.peer) && impl_->peer(op.peer).lost) return op.complete(impl_->peer(op.peer).lost);
  impl_->awaiting.add(op);
}

void UcxTransport::forget(Op& op) {
  if (impl_->completions.forget(op)) return;
  if (auto* receive = dynamic_cast<RecvOp*>(&op)) {
    TAXON_CHECK(impl_->inbox.forget(*receive), "an unknown receive was cancelled");
  } else if (auto* await = dynamic_cast<AwaitSignalOp*>(&op)) {
    impl_->awaiting.forget(*await);
  } else {
    TAXON_CHECK(impl_->peer(op.peer).outbox.forget(op), "an unknown send was cancelled");
  }
}

Region UcxTransport::allocate(std::size_t size) { return impl_->memory.allocate(size); }

View UcxTransport::map(const RemoteRegion& region) {
  if (impl_->is_self(region.owner)) return View(reinterpret_cast<std::byte*>(region.address), region.size);
  Peer& owner = impl_->peer(region.owner);
  return owner.shares_memory() ? impl_->memory.map(owner.endpoint(), region) : View();
}

std::uint32_t UcxTransport::signals() const { return impl_->options.signals; }
std::uint64_t UcxTransport::signal(std::uint32_t index) const { return impl_->page.value(index); }

Path UcxTransport::path(Rank rank) const {
  if (impl_->is_self(rank)) return {"own memory", true};
  Peer& peer = impl_->peer(rank);
  return {peer.describe_path(), peer.shares_memory(), peer.fragment_bytes()};
}

const Traffic& UcxTransport::traffic() const {
  impl_->traffic.bytes_received = impl_->inbox.bytes_received();
  return impl_->traffic;
}

void UcxTransport::count_stored(std::size_t bytes) { impl_->traffic.bytes_sent += bytes; }
Rank UcxTransport::rank() const { return impl_->options.rank; }
int UcxTransport::world_size() const { return impl_->options.world_size; }
task::Executor& UcxTransport::executor() { return impl_->executor; }
task::Waits& UcxTransport::waits() { return impl_->waits; }

bool UcxTransport::poll() { return impl_->poll(); }
int UcxTransport::event_fd() { return impl_->context.event_fd(); }
bool UcxTransport::arm() { return impl_->arm(); }
void UcxTransport::disarm() { impl_->page.announce_awake(); }

std::uint64_t UcxTransport::stale_fragments() const { return impl_->inbox.stale(); }

FragmentCounts UcxTransport::fragments_to(Rank rank) const { return impl_->peer(rank).outbox.counts(); }

}  // namespace taxon::net
