#include "net/ucx/outbox.h"

#include <cstring>

namespace taxon::net {
struct Outbox::Fragment {
  Outbox* owner;
  WireHeader header;
  alignas(64) std::byte bytes[kLargestFragment];
};

Outbox::Outbox(Setting setting, Completions& completions) : setting_(setting), queue_(completions) {
  TAXON_CHECK(setting.fragment_bytes <= kLargestFragment, setting.fragment_bytes);
}

Outbox::~Outbox() = default;

bool Outbox::start(Op& op) {
  return queue_.start(op, [this] { pump(); });
}

bool Outbox::must_confirm(std::size_t bytes) {
  if (setting_.clock == nullptr || !way_.send(bytes, setting_.clock->now())) return false;
  ++counts_.confirmed;
  return true;
}

bool Outbox::pump() {
  if (queue_.cut()) return false;
  int burst = 0;
  for (; burst < kBurst && ready(); ++burst) {
    const ConstView part = next_fragment();
    const WireHeader header = header_for(part);
    // Not past copies that still wait.
    if (in_flight_ > 0 || !send_direct(header, part)) send_copy(header, part);
    queue_.advance(part.size());
    if (queue_.is_whole() && failure_ == UCS_OK) queue_.pop();
  }
  if (queue_.empty())
    way_.run_dry();
  else if (!admitted())
    way_.hold();
  return burst > 0;
}

WireHeader Outbox::header_for(ConstView part) {
  WireHeader header = header_of(queue_.first());
  if (must_confirm(part.size())) header.flags |= kConfirm;
  header.epoch = setting_.epoch;
  header.source = setting_.self.value();
  header.order = queue_.order();
  header.offset = queue_.sent();
  if (setting_.checksums == Checksums::Payload) {
    header.flags |= kPayloadChecksum;
    header.payload_checksum = checksum_of(part);
  }
  seal(header);
  return header;
}

bool Outbox::send_direct(const WireHeader& header, ConstView part) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  ucs_status_ptr_t status =
      ucp_am_send_nbx(endpoint_, kFragmentMessage, &header, sizeof header, part.data(), part.size(), &param);
  if (UCS_PTR_STATUS(status) == UCS_ERR_NO_RESOURCE) return false;
  TAXON_CHECK(!UCS_PTR_IS_PTR(status), "UCX kept what it was to send at once");
  if (UCS_PTR_IS_ERR(status)) {
    failure_ = UCS_PTR_STATUS(status);
    return true;
  }
  ++counts_.direct;
  if (part.size() == setting_.fragment_bytes) window_ = kDirectWindow;
  return true;
}

void Outbox::send_copy(const WireHeader& header, ConstView part) {
  Fragment& fragment = *take_fragment();
  fragment.header = header;
  if (!part.empty()) std::memcpy(fragment.bytes, part.data(), part.size());
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &Outbox::sent;
  param.user_data = &fragment;
  ++counts_.copied;
  ++in_flight_;
  ucs_status_ptr_t request = ucp_am_send_nbx(endpoint_, kFragmentMessage, &fragment.header,
                                             sizeof fragment.header, fragment.bytes, part.size(), &param);
  if (UCS_PTR_IS_PTR(request)) return;  // sent() follows
  if (UCS_PTR_IS_ERR(request)) failure_ = UCS_PTR_STATUS(request);
  --in_flight_;
  free_.push_back(&fragment);
}

void Outbox::sent(void* request, ucs_status_t status, void* user_data) {
  auto* fragment = static_cast<Fragment*>(user_data);
  Outbox& outbox = *fragment->owner;
  --outbox.in_flight_;
  outbox.free_.push_back(fragment);
  if (status != UCS_OK && outbox.failure_ == UCS_OK) outbox.failure_ = status;
  ucp_request_free(request);
}

Outbox::Fragment* Outbox::take_fragment() {
  if (free_.empty()) {
    fragments_.push_back(std::unique_ptr<Fragment>(new Fragment));  // left uninitialised: it is a buffer
    fragments_.back()->owner = this;
    return fragments_.back().get();
  }
  Fragment* fragment = free_.back();
  free_.pop_back();
  return fragment;
}

}  // namespace taxon::net
