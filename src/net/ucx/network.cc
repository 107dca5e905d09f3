#include "net/ucx/network.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace taxon::net {
namespace {

/// What one piece of a path carries without being cut by UCX and put together at the other end in memory of
/// its own: its send buffers less its headers and ours.
constexpr std::size_t kSharedFragment = 8000;
constexpr std::size_t kNetworkFragment = Outbox::kLargestFragment;
/// Rounds of progress per poll before other work gets its turn.
constexpr int kProgressRounds = 16;
constexpr auto kCloseLimit = std::chrono::seconds(2);

}  // namespace

UcxNetwork::UcxNetwork(const TransportChoice& choice, const ProcessTransportOptions& options)
    : options_(options), context_(choice, options.address), memory_(context_, options.rank) {}

void UcxNetwork::open(Inbox& inbox, SignalPage page) {
  inbox_ = &inbox;
  page_ = page;
  page_.nonce() = (std::uint64_t{std::random_device()()} << 32) | std::random_device()();
  handle(kFragmentMessage, &UcxNetwork::fragment_arrived);
  handle(kWakeMessage, &UcxNetwork::wake_arrived);
}

void UcxNetwork::handle(unsigned id, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t param{};
  param.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.cb = callback;
  param.arg = this;
  if (ucs_status_t status = ucp_worker_set_am_recv_handler(context_.worker(), &param); status != UCS_OK)
    throw ucx_error("UCX refuses a message handler", status);
}

ucs_status_t UcxNetwork::fragment_arrived(void* self, const void* header, std::size_t header_size, void* data,
                                          std::size_t size, const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
    return UCS_OK;  // a stranger's: ranks send eagerly
  static_cast<UcxNetwork*>(self)->inbox_->arrived(
      ConstView(static_cast<const std::byte*>(header), header_size),
      ConstView(static_cast<const std::byte*>(data), size));
  return UCS_OK;
}

Card UcxNetwork::card(const Region& page) const {
  Card card{page_.nonce(), context_.address(UcxContext::AddressOf::All), {}, page.share().pack()};
  if (has_network()) card.network = context_.address(UcxContext::AddressOf::NetworkOnly);
  return card;
}

std::unique_ptr<UcxPeer> UcxNetwork::connect(Rank rank, UcxPeer::Locality place, Card card,
                                             const task::Executor& executor, Completions& completions) {
  const bool local = place == UcxPeer::Locality::SameHost;
  const Outbox::Setting setting{
      options_.rank,
      rank,
      options_.job_epoch,
      options_.payload_checksums == PayloadChecksums::On ? Checksums::Payload : Checksums::Header,
      local ? kSharedFragment : kNetworkFragment,
      local || options_.on_its_way == ProcessTransportOptions::OnItsWay::AsTcpAllows ? nullptr : &executor};
  auto peer =
      std::make_unique<UcxPeer>(rank, place, std::move(card), setting, completions, context_, memory_);
  if (local) {
    peer->reach();
    if (peer->lost) std::rethrow_exception(peer->lost);
    peer->map_page(options_.signals);
  }
  peers_.push_back(peer.get());
  return peer;
}

bool UcxNetwork::poll() {
  bool worked = false;
  for (int round = 0; round < kProgressRounds && ucp_worker_progress(context_.worker()) != 0; ++round)
    worked = true;
  for (UcxPeer* peer : peers_) {
    if (!peer->outbox.has_queue() || peer->lost) continue;
    worked |= peer->outbox.pump();
    if (peer->outbox.failure() != UCS_OK) peer->fail(peer->outbox.failure());
  }
  return worked;
}

bool UcxNetwork::arm() {
  if (std::any_of(peers_.begin(), peers_.end(),
                  [](const UcxPeer* peer) { return !peer->lost && peer->outbox.ready(); }))
    return false;
  return ucp_worker_arm(context_.worker()) == UCS_OK;
}

bool UcxNetwork::is_drained() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const UcxPeer* peer) {
    return peer->lost || peer->outbox.failure() != UCS_OK || peer->outbox.idle();
  });
}

void UcxNetwork::close(End end) {
  memory_.unmap_all();
  if (end == End::AtOnce) {
    context_.abandon();
  } else {
    const auto limit = std::chrono::steady_clock::now() + kCloseLimit;
    const auto wait_for = [&](ucs_status_ptr_t request) {
      if (!UCS_PTR_IS_PTR(request)) return;
      while (ucp_request_check_status(request) == UCS_INPROGRESS && std::chrono::steady_clock::now() < limit)
        if (ucp_worker_progress(context_.worker()) == 0) sched_yield();
      ucp_request_free(request);
    };
    ucp_request_param_t param{};
    wait_for(ucp_worker_flush_nbx(context_.worker(), &param));
    std::vector<ucs_status_ptr_t> closing;
    for (UcxPeer* peer : peers_)
      if (ucs_status_ptr_t request = peer->close()) closing.push_back(request);
    for (ucs_status_ptr_t request : closing) wait_for(request);
  }
  context_.close();  // before the outboxes, whose fragments it may still hold
  peers_.clear();
}

}  // namespace taxon::net
