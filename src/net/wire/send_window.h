#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/time.h"

namespace taxon::net {

/// How many bytes may be on their way to one peer. TCP would let as many go as both hosts have memory for;
/// where several senders share a receiver's link they wait there in one queue, and so do the acknowledgements
/// of what the receiver itself sends, which then is held up. So the receiver confirms what has come, as often
/// as it is asked, and says when; the sender allows what the path carried lately in the time that a byte
/// needs without a queue ahead of it, and a little queue (as Vegas: Brakmo, Peterson, IEEE JSAC 1995, but by
/// the way there alone, as LEDBAT, RFC 6817: confirmations may well be late). Pure: it is told the time.
class SendWindow {
 public:
  /// What each sender lets wait in the network at least: equal parts of one queue make equal rates.
  static constexpr std::size_t kLeast = 128 << 10;
  static constexpr std::size_t kFirst = 512 << 10;
  static constexpr std::size_t kMost = 64 << 20;
  /// The same in time, where that is more: enough for a receiver that gets no processor for as long as a
  /// scheduler's period.
  static constexpr Duration kQueue = std::chrono::milliseconds(10);
  /// Rates are means over at least so long: what passes in one burst says nothing about a link.
  static constexpr Duration kEpoch = std::chrono::milliseconds(20);
  /// What goes at one stroke when a confirmation comes is a queue of its own, and should take no longer.
  static constexpr Duration kStroke = std::chrono::milliseconds(2);
  /// How long the shortest way counts: routes change, and two hosts' clocks drift apart by some 50 us in a
  /// second.
  static constexpr Duration kMemory = std::chrono::seconds(10);

  /// False only while a confirmation is on its way.
  bool admits(std::size_t bytes) const { return asked_.empty() || on_the_way() + bytes <= size_; }
  /// Something waits that was not admitted.
  void hold() { held_ = true; }
  /// Nothing waits: what is confirmed from now on says nothing about the rate.
  void run_dry() { epoch_.reset(); }
  /// So many bytes leave. True if the receiver must be asked to confirm them, once all of them have come.
  bool send(std::size_t bytes, Instant now);
  struct Confirmation {
    Duration came{};   // when, by the receiver's clock, wherever that has its zero
    double share = 0;  // bytes per second that each gets who sends to the receiver now; 0: there is one
  };
  /// Of what was asked for first. False if nothing was.
  bool confirm(Instant now, Confirmation confirmation);

  std::size_t size() const { return size_; }
  std::size_t on_the_way() const { return static_cast<std::size_t>(sent_ - confirmed_); }

 private:
  struct Asked {
    std::uint64_t position = 0;  // of the last byte
    Instant sent;
  };
  struct Epoch {
    Instant begin;
    std::uint64_t confirmed = 0;
    Duration there = Duration::max();  // the shortest way of its bytes
  };
  void remember(Instant now, Duration there);
  Duration shortest() const { return std::min(*shortest_[0], shortest_[1].value_or(*shortest_[0])); }
  void measure(Instant now, double trip, double share);
  void resize(double rate, double trip);
  void begin(Instant now);
  std::size_t stroke() const;
  double trip(Duration back);

  std::size_t size_ = kFirst;
  std::uint64_t sent_ = 0, confirmed_ = 0, last_asked_ = 0;
  std::deque<Asked> asked_;
  std::optional<Epoch> epoch_;
  bool held_ = false;                                // in this epoch
  int draining_ = 0;                                 // epochs in which the queue may become empty
  std::array<std::optional<Duration>, 2> shortest_;  // way there: of this stretch and of the one before
  Instant stretch_{};
  std::optional<double> back_;  // seconds that confirmations take lately
  std::optional<double> rate_;  // bytes per second
};

}  // namespace taxon::net
