#include "net/ucx/peer.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "base/failure.h"

namespace taxon::net {
namespace {

struct Lane {
  std::string transport, device;
};

/// What carries an endpoint's active messages. UCX 1.13 tells it only in print, one line per lane:
/// "#  lane[0]:  3:sysv/memory.0 md[2]  -> md[2]/sysv/sysdev[255] rma_bw#0 am am_bw#0"
Lane message_lane(ucp_ep_h endpoint) {
  char* text = nullptr;
  std::size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  if (stream == nullptr) return {};
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  std::istringstream lines(std::string(text, size));
  std::free(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, name, resource, word;
    words >> hash >> name >> resource;  // "#", "lane[0]:", "3:sysv/memory.0"
    auto colon = resource.find(':'), slash = resource.find('/'), dot = resource.rfind('.');
    if (!name.starts_with("lane[") || slash == std::string::npos || dot == std::string::npos) continue;
    while (words >> word)
      if (word == "am")
        return {resource.substr(colon + 1, slash - colon - 1), resource.substr(slash + 1, dot - slash - 1)};
  }
  return {};
}

}  // namespace

UcxPeer::UcxPeer(Rank rank, Locality place, Card card, Outbox::Setting setting, Completions& completions,
                 UcxContext& context, UcxMemory& memory)
    : NetworkPeer(rank),
      place_(place),
      card_(std::move(card)),
      context_(context),
      memory_(memory),
      outbox(setting, completions) {
  confirmation_.epoch = setting.epoch;
  confirmation_.source = setting.self.value();
  confirmation_.kind = WireKind::Confirmation;
}

void UcxPeer::reach() {
  if (endpoint_ != nullptr || lost) return;
  const auto& address = place_ == Locality::SameHost ? card_.all : card_.network;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = place_ == Locality::SameHost ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxPeer::broke;
  params.err_handler.arg = this;
  if (ucs_status_t status = ucp_ep_create(context_.worker(), &params, &endpoint_); status != UCS_OK) {
    endpoint_ = nullptr;
    return fail(status);
  }
  outbox.open(endpoint_);
}

bool UcxPeer::start(Op& op) { return outbox.start(op); }

View UcxPeer::map(const RemoteRegion& region) {
  return shares_memory() ? memory_.map(endpoint_, region) : View();
}

void UcxPeer::map_page(std::uint32_t signals) {
  if (endpoint_ == nullptr) return;
  RemoteRegion region = RemoteRegion::unpack(ConstView(card_.page.data(), card_.page.size()));
  View view = memory_.map(endpoint_, region);
  if (view.size() < SignalPage::bytes_for(signals)) return;
  SignalPage mapped(view);
  if (mapped.nonce() == card_.nonce) page = mapped;
}

Path UcxPeer::path() const {
  const Lane lane = endpoint_ != nullptr ? message_lane(endpoint_) : Lane();
  std::string name = lane.transport.empty() ? "network"
                     : shares_memory()      ? fmt::format("shared memory ({})", lane.transport)
                                            : fmt::format("ucx {} {}", lane.transport, lane.device);
  return {std::move(name), shares_memory(), outbox.fragment_bytes()};
}

void UcxPeer::wake() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  ucs_status_ptr_t request = ucp_am_send_nbx(endpoint_, kWakeMessage, nullptr, 0, nullptr, 0, &param);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

void UcxPeer::confirm(SendWindow::Confirmation what) {
  reach();
  if (lost) return;
  auto header = std::make_unique<WireHeader>(confirmation_);  // the network may hold it for a while
  header->value = static_cast<std::uint64_t>(what.came.count());
  header->address = static_cast<std::uint64_t>(what.share);
  seal(*header);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.user_data = header.get();
  param.cb.send = [](void* request, ucs_status_t, void* sent) {
    delete static_cast<WireHeader*>(sent);
    ucp_request_free(request);
  };
  ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint_, kFragmentMessage, header.get(), sizeof *header, nullptr, 0, &param);
  if (UCS_PTR_IS_PTR(request)) (void)header.release();  // the callback follows
}

ucs_status_ptr_t UcxPeer::close() {
  if (endpoint_ == nullptr || place_ == Locality::SameHost) return nullptr;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = lost ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint_, &param);
  endpoint_ = nullptr;
  return UCS_PTR_IS_PTR(request) ? request : nullptr;
}

void UcxPeer::fail(ucs_status_t status) {
  // More than a peer's segments take.
  constexpr std::size_t kSegments = std::size_t{64} << 20;
  fail_with(ucx_path_error(rank, status, !may_map(kSegments)));
}

void UcxPeer::broke(void* peer, ucp_ep_h, ucs_status_t status) { static_cast<UcxPeer*>(peer)->fail(status); }

}  // namespace taxon::net
