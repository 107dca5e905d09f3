#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/completions.h"
#include "net/process_transport.h"
#include "net/tcp/outbound.h"
#include "net/wire/network.h"

namespace taxon::net::tcp {

/// Another rank as one rank sends to it over TCP: messages and puts in order, cut into fragments, which go
/// out of where they lie over one connection or several. An operation is done when the kernel has its last
/// byte, and can be recalled at any time.
class TcpPeer final : public NetworkPeer, private Outbound::Owner {
 public:
  struct Setting {
    Outbound::Setting line;
    /// 0: as many as the path needs (connections_for).
    int connections = 0;
    PayloadChecksums checksums = PayloadChecksums::Off;
    const task::Executor* executor = nullptr;
    /// Whether the path's own measure bounds what is on its way (net/wire/send_window.h).
    ProcessTransportOptions::OnItsWay on_its_way = ProcessTransportOptions::OnItsWay::AsTcpAllows;
    std::string interface;
  };
  TcpPeer(Setting setting, Poller& poller, Completions& completions);
  ~TcpPeer() override;

  void reach() override;
  bool start(Op& op) override;
  bool forget(Op& op) override;
  bool has_queue() const override { return !queue_.empty(); }
  void confirm(SendWindow::Confirmation what) override;
  bool confirmed(SendWindow::Confirmation what) override;
  Path path() const override;

  /// Goes on with calling and sends what the connections take. True if anything went.
  bool progress();
  /// When progress() must be called at the latest, besides after events.
  std::optional<Instant> next_look() const { return lost || cut_ ? std::nullopt : next_look_; }
  /// There is something to send and nothing to wait for.
  bool ready() const;
  /// This rank has called it.
  bool has_lines() const { return !lines_.empty(); }
  /// Nothing to do but after events.
  bool is_idle() const { return queue_.empty() && confirmations_.empty() && all_settled(); }
  bool is_drained() const;
  void finish();
  void hang_up() { lines_.clear(); }

  /// One more, or one less, of the connections on which this peer sends to this rank.
  void opened() { ++inbound_; }
  void closed(const std::string& why);
  /// All connections on which this peer sent have ended.
  bool has_ended() const { return inbound_ == 0 && ended_.has_value(); }
  /// REQUIRES: has_ended().
  void fail_ended();
  /// The connections that this rank sends on broke, and nothing comes any more.
  bool is_silent() const { return inbound_ == 0 && out_problem_.has_value(); }
  void fail_silent() { fail(*out_problem_); }

 private:
  struct Outgoing {
    Op* op;
    ConstView payload;
    WireHeader header;
    std::size_t assigned = 0, written = 0;
    bool begun = false;
    bool is_assigned() const { return begun && assigned == payload.size(); }
  };
  static constexpr int kBurst = 16;

  void sent(const Frame& frame) override;
  bool pump(Outbound& line);
  /// Confirmations go over one connection alone: on another, one would overtake those before it.
  bool confirms(const Outbound& line) const { return &line == lines_.front().get(); }
  Frame next_frame();
  bool has_unassigned() const { return assigning_ < queue_.size(); }
  bool admitted() const;
  bool all_settled() const;
  void add_lines();
  void look_after_lines();
  void break_off(const Outbound& line);

  const Setting setting_;
  Poller& poller_;
  Completions& completions_;
  std::vector<std::unique_ptr<Outbound>> lines_;
  std::optional<Instant> next_look_;
  std::optional<std::string> out_problem_;
  int inbound_ = 0;
  std::optional<std::string> ended_;  // why
  std::size_t in_flight_ = 0;         // bytes that fill the path
  std::deque<Outgoing> queue_;
  std::size_t assigning_ = 0;  // the first of the queue that has bytes which no line has
  std::uint64_t first_ = 0;    // order of the queue's first
  Op* starting_ = nullptr;     // inside start(); null again once it is done
  bool cut_ = false;           // a part of an operation went out and the rest never will
  std::vector<WireHeader> confirmations_;
  SendWindow way_;
};

/// How many connections fill a path: more than one only where a connection's buffers hold less than what is
/// on its way in a round trip.
int connections_for(double round_trip_seconds, double bytes_per_second, double buffer_bytes);

}  // namespace taxon::net::tcp
