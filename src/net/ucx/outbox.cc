#include "net/ucx/outbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/wire/header_of.h"

namespace taxon::net {
struct Outbox::Fragment {
  Outbox* owner;
  WireHeader header;
  alignas(64) std::byte bytes[kLargestFragment];
};

Outbox::Outbox(Setting setting, Completions& completions) : setting_(setting), completions_(completions) {
  TAXON_CHECK(setting.fragment_bytes <= kLargestFragment, setting.fragment_bytes);
}

Outbox::~Outbox() = default;

bool Outbox::start(Op& op) {
  op.next_in_queue = nullptr;
  (last_ ? last_->next_in_queue : first_) = &op;
  last_ = &op;
  if (first_ != &op) return false;
  sent_ = 0;
  starting_ = &op;
  pump();
  return std::exchange(starting_, nullptr) == nullptr;
}

std::size_t Outbox::next_fragment() const {
  return std::min(setting_.fragment_bytes, payload_of(*first_).size() - sent_);
}

bool Outbox::must_confirm(std::size_t bytes) {
  if (setting_.clock == nullptr || !way_.send(bytes, setting_.clock->now())) return false;
  ++counts_.confirmed;
  return true;
}

bool Outbox::pump() {
  int burst = 0;
  for (; burst < kBurst && ready(); ++burst) {
    Op& op = *first_;
    ConstView payload = payload_of(op);
    ConstView part = payload.slice(sent_, next_fragment());
    WireHeader header = header_for(op, part);
    // Not past copies that still wait.
    if (in_flight_ > 0 || !send_direct(header, part)) send_copy(header, part);
    sent_ += part.size();
    if (sent_ < payload.size() || failure_ != UCS_OK) continue;
    first_ = op.next_in_queue;
    if (first_ == nullptr) last_ = nullptr;
    sent_ = 0;
    ++order_;
    if (starting_ == &op)
      starting_ = nullptr;
    else
      completions_.push(op);
  }
  if (first_ == nullptr)
    way_.run_dry();
  else if (!admitted())
    way_.hold();
  return burst > 0;
}

WireHeader Outbox::header_for(const Op& op, ConstView part) {
  WireHeader header = header_of(op);
  if (must_confirm(part.size())) header.flags |= kConfirm;
  header.epoch = setting_.epoch;
  header.source = setting_.self.value();
  header.order = order_;
  header.offset = sent_;
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

bool Outbox::forget(Op& op) {
  Op* before = nullptr;
  for (Op* other = first_; other != nullptr; before = other, other = other->next_in_queue) {
    if (other != &op) continue;
    if (before == nullptr && sent_ > 0) stopped_ = true;
    (before ? before->next_in_queue : first_) = op.next_in_queue;
    if (last_ == &op) last_ = before;
    return true;
  }
  return false;
}

}  // namespace taxon::net
