#include "control/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace taxon::control {
namespace {

constexpr std::size_t kChunk = 64 << 10;
// So much of one connection at a time, so that a large exchange does not delay everybody's heartbeats.
constexpr std::size_t kTurn = 4 << 20;

}  // namespace

Connection::Connection(Poller& poller, Fd fd, Owner& owner)
    : poller_(poller), fd_(std::move(fd)), owner_(&owner) {
  poller_.watch(fd_.get(), EPOLLIN, [this](std::uint32_t events) { handle(events); });
}

Connection::~Connection() {
  *alive_ = false;
  poller_.forget(fd_.get());
}

void Connection::handle(std::uint32_t events) {
  std::shared_ptr<bool> alive = alive_;
  if ((events & EPOLLOUT) != 0) flush();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  std::string reason;
  Stream stream = read_some(reason);
  if (!input().empty()) owner_->received(*this);
  if (*alive && stream == Stream::Ended) owner_->closed(*this, reason);
}

Connection::Stream Connection::read_some(std::string& reason) {
  std::array<std::byte, kChunk> chunk;
  for (std::size_t total = 0; total < kTurn;) {
    std::size_t room = input_limit_ - std::min(input_limit_, input().size());
    if (room == 0) return Stream::Open;
    ssize_t n = recv(fd_.get(), chunk.data(), std::min(room, chunk.size()), 0);
    if (n > 0) {
      in_.insert(in_.end(), chunk.begin(), chunk.begin() + n);
      total += static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Stream::Open;
    reason =
        n == 0 ? "its connection closed without a goodbye" : "its connection failed: " + errno_text(errno);
    return Stream::Ended;
  }
  return Stream::Open;
}

void Connection::send(std::span<const std::byte> bytes) {
  send(std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
}

void Connection::send(const Packet& packet) {
  if (broken_) return;
  out_.push_back(packet);
  if (out_.size() == 1) flush();
}

void Connection::flush() {
  while (!out_.empty() && !broken_) {
    const auto& packet = *out_.front();
    ssize_t n = ::send(fd_.get(), packet.data() + out_begin_, packet.size() - out_begin_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) {
      // The reading side will find the same and tell the owner, after what came before the failure.
      broken_ = true;
      out_.clear();
      break;
    }
    out_begin_ += static_cast<std::size_t>(n);
    if (out_begin_ < packet.size()) continue;
    out_.pop_front();
    out_begin_ = 0;
  }
  watch_output();
}

void Connection::watch_output() {
  if (wants_output_ == !out_.empty()) return;
  wants_output_ = !out_.empty();
  poller_.change(fd_.get(), wants_output_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

std::optional<Message> Connection::next() {
  auto decoded = decode(input(), frame_limits_);
  if (!decoded) return {};
  consume(decoded->used);
  return std::move(decoded->message);
}

void Connection::consume(std::size_t bytes) {
  in_begin_ += bytes;
  if (in_begin_ == in_.size()) {
    in_.clear();
    in_begin_ = 0;
  } else if (in_begin_ >= kTurn) {
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(in_begin_));
    in_begin_ = 0;
  }
}

}  // namespace taxon::control
