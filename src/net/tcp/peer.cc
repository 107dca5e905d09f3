#include "net/tcp/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "net/wire/header_of.h"

namespace taxon::net::tcp {
namespace {

constexpr int kMostConnections = 8;
/// Whoever keeps memory for what comes (Path::in_flight) keeps no more.
constexpr std::size_t kMostInFlight = 16 << 20;
/// Of interfaces that don't say how fast they are.
constexpr double kUsualSpeed = 1.25e9;
/// What a connection has on its way where the kernel's limits can't be read.
constexpr double kUsualBuffer = 2 << 20;

double bytes_per_second(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/speed");  // reading fails for virtual devices
  double megabits = 0;
  return file >> megabits && megabits > 0 ? megabits * 1e6 / 8 : kUsualSpeed;
}

/// The kernel counts its own bookkeeping in, so that about half of its limit are bytes of ours.
double buffer_bytes() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_wmem");
  double least = 0, usual = 0, most = 0;
  return file >> least >> usual >> most && most > 0 ? most / 2 : kUsualBuffer;
}

}  // namespace

int connections_for(double round_trip_seconds, double bytes_per_second, double buffer_bytes) {
  const double needed = std::ceil(round_trip_seconds * bytes_per_second / buffer_bytes);
  return static_cast<int>(std::clamp(needed, 1.0, static_cast<double>(kMostConnections)));
}

TcpPeer::TcpPeer(Setting setting, Poller& poller, Completions& completions)
    : NetworkPeer(setting.line.peer),
      setting_(std::move(setting)),
      poller_(poller),
      completions_(completions) {}

TcpPeer::~TcpPeer() = default;

void TcpPeer::reach() {
  if (out_problem_) fail(*out_problem_);
  if (!lines_.empty() || lost || cut_) return;
  lines_.push_back(std::make_unique<Outbound>(setting_.line, poller_, static_cast<Outbound::Owner&>(*this)));
  look_after_lines();
}

bool TcpPeer::start(Op& op) {
  queue_.push_back({&op, payload_of(op), header_of(op)});
  if (queue_.size() > 1) return false;
  starting_ = &op;
  progress();
  return std::exchange(starting_, nullptr) == nullptr;
}

bool TcpPeer::forget(Op& op) {
  const auto found = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Outgoing& outgoing) { return outgoing.op == &op; });
  if (found == queue_.end()) return false;
  if (found->begun) {
    cut_ = true;
    found->op = nullptr;
    lines_.clear();  // they hold places of its payload
  } else {
    queue_.erase(found);
  }
  return true;
}

bool TcpPeer::admitted() const {
  if (setting_.on_its_way == ProcessTransportOptions::OnItsWay::AsTcpAllows) return true;
  const Outgoing& next = queue_[assigning_];
  return way_.admits(std::min<std::size_t>(setting_.line.fragment, next.payload.size() - next.assigned));
}

bool TcpPeer::ready() const {
  if (lost || cut_) return false;
  return std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) {
    return line->is_writable() && (line->has_frames() || (confirms(*line) && !confirmations_.empty()) ||
                                   (has_unassigned() && admitted()));
  });
}

bool TcpPeer::all_settled() const {
  return std::all_of(lines_.begin(), lines_.end(),
                     [](const auto& line) { return line->is_open() || line->has_failed(); });
}

bool TcpPeer::is_drained() const {
  return confirmations_.empty() &&
         std::all_of(lines_.begin(), lines_.end(), [](const auto& line) { return line->is_drained(); });
}

void TcpPeer::finish() {
  for (auto& line : lines_) line->finish();
}

void TcpPeer::closed(const std::string& why) {
  if (--inbound_ == 0) ended_ = why;
}

void TcpPeer::fail_ended() { fail(*std::exchange(ended_, {})); }

void TcpPeer::confirm(SendWindow::Confirmation what) {
  if (out_problem_ || cut_) return;  // who asked has left, and what it had sent is still read
  WireHeader header;
  header.epoch = setting_.line.epoch;
  header.source = setting_.line.self.value();
  header.kind = WireKind::Confirmation;
  header.value = static_cast<std::uint64_t>(what.came.count());
  header.address = static_cast<std::uint64_t>(what.share);
  seal(header);
  reach();
  confirmations_.push_back(header);
  progress();
}

bool TcpPeer::confirmed(SendWindow::Confirmation what) {
  return setting_.on_its_way == ProcessTransportOptions::OnItsWay::AsPathCarries &&
         way_.confirm(setting_.executor->now(), what);
}

Path TcpPeer::path() const {
  std::string name = "tcp " + setting_.interface;
  if (setting_.line.encryption == Encryption::Tls) name += " with TLS";
  if (lines_.size() > 1) name += fmt::format(", {} connections", lines_.size());
  return {name, false, setting_.line.fragment, in_flight_};
}

void TcpPeer::add_lines() {
  const double round_trip = lines_.front()->round_trip(), speed = bytes_per_second(setting_.interface);
  in_flight_ = std::min(static_cast<std::size_t>(round_trip * speed), kMostInFlight);
  int wanted = setting_.connections;
  if (wanted == 0) wanted = connections_for(round_trip, speed, buffer_bytes());
  while (static_cast<int>(lines_.size()) < wanted)
    lines_.push_back(
        std::make_unique<Outbound>(setting_.line, poller_, static_cast<Outbound::Owner&>(*this)));
  if (wanted == 1) return;
  for (auto& line : lines_) line->share_the_work();
}

void TcpPeer::look_after_lines() {
  const Instant now = setting_.executor->now();
  next_look_.reset();
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    Outbound& line = *lines_[i];
    const bool was_open = line.is_open();
    if (const auto when = line.advance(now)) next_look_ = std::min(next_look_.value_or(*when), *when);
    if (i == 0 && !was_open && line.is_open()) add_lines();
    // One that was never open leaves the work to the others.
    if (!line.has_failed() || out_problem_ || (i > 0 && !was_open && !line.has_frames())) continue;
    break_off(line);
  }
}

/// What the peer had sent before may still be on its way here.
void TcpPeer::break_off(const Outbound& line) {
  out_problem_ = line.problem();
  confirmations_.clear();
  if (line.lack())
    fail_with(*line.lack());
  else if (!queue_.empty())
    fail(line.problem());
}

bool TcpPeer::progress() {
  if (lost || cut_) return false;
  look_after_lines();
  bool any = false;
  for (std::size_t i = 0; i < lines_.size() && !lost; ++i) any |= pump(*lines_[i]);
  if (!has_unassigned())
    way_.run_dry();
  else if (!admitted())
    way_.hold();
  return any;
}

bool TcpPeer::pump(Outbound& line) {
  bool any = false;
  const bool was_open = line.is_open();
  for (int burst = 0; burst < kBurst && line.is_writable(); ++burst) {
    if (confirms(line)) {
      for (const WireHeader& header : confirmations_) line.add_urgent({header, {}});
      confirmations_.clear();
    }
    while (line.takes_frames() && has_unassigned() && admitted()) line.add(next_frame());
    if (!line.has_frames()) break;
    any |= line.send();
  }
  if (was_open && line.has_failed() && !out_problem_) break_off(line);
  return any;
}

Frame TcpPeer::next_frame() {
  Outgoing& next = queue_[assigning_];
  const ConstView part = next.payload.slice(
      next.assigned, std::min<std::size_t>(setting_.line.fragment, next.payload.size() - next.assigned));
  Frame frame{next.header, part};
  WireHeader& header = frame.header;
  if (setting_.on_its_way == ProcessTransportOptions::OnItsWay::AsPathCarries &&
      way_.send(part.size(), setting_.executor->now()))
    header.flags |= kConfirm;
  header.epoch = setting_.line.epoch;
  header.source = setting_.line.self.value();
  header.order = first_ + assigning_;
  header.offset = next.assigned;
  if (setting_.checksums == PayloadChecksums::On) {
    header.flags |= kPayloadChecksum;
    header.payload_checksum = checksum_of(part);
  }
  seal(header);
  next.begun = true;
  next.assigned += part.size();
  if (next.is_assigned()) ++assigning_;
  return frame;
}

void TcpPeer::sent(const Frame& frame) {
  if (frame.header.kind == WireKind::Confirmation) return;
  Outgoing& outgoing = queue_[static_cast<std::size_t>(frame.header.order - first_)];
  outgoing.written += frame.payload.size();
  if (outgoing.written < outgoing.payload.size()) return;
  Op* const done = std::exchange(outgoing.op, nullptr);
  while (!queue_.empty() && queue_.front().op == nullptr) {
    queue_.pop_front();
    --assigning_;
    ++first_;
  }
  if (starting_ == done)
    starting_ = nullptr;
  else
    completions_.push(*done);
}

}  // namespace taxon::net::tcp
