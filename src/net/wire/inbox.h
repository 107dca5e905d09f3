#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "net/completions.h"
#include "net/kept_message.h"
#include "net/mailbox.h"
#include "net/region_table.h"
#include "net/wire/arrivals.h"
#include "net/wire/send_window.h"
#include "net/wire/signal_page.h"
#include "net/wire/wire.h"

namespace taxon::net {

/// The receiving half of a transport that moves messages in fragments: checks headers, puts fragments
/// together in the receiver's buffer, matches messages with receives, and applies puts. Knows nothing of the
/// network below. Executor's thread only; completes operations through `completions`.
class Inbox {
 public:
  struct Setting {
    Rank self;
    int world_size;
    std::uint32_t epoch;
    std::uint32_t signals;
  };
  Inbox(Setting setting, Completions& completions, const RegionTable& regions, SignalPage page);
  ~Inbox();

  /// Completes the op if its whole message is here, otherwise keeps it.
  void start(RecvOp& op);
  /// False: the op was not waiting here. Afterwards what still comes for it is thrown away.
  bool forget(RecvOp& op);
  bool awaits(Rank source) const;

  /// A fragment came, and not from this rank itself. Fragments of one source come in the order in which they
  /// were sent.
  void arrived(ConstView header, ConstView fragment) { take(header, fragment, {}); }

  // The same step by step, for those who put payloads where they belong by themselves. Fragments of one
  // source begin in the order in which they were sent, and may end in any.

  /// False: nothing comes of it. It was a stranger's, a confirmation, or broke the protocol, as one does that
  /// names another rank than it is known to come from.
  bool accept(ConstView bytes, WireHeader& header, std::optional<Rank> from = {});
  enum class Turn { Now, Later };
  /// Later: nothing changed; fragments that were sent before must begin before.
  /// REQUIRES: accept() gave the header.
  Turn begin(const WireHeader& header, std::size_t fragment);
  /// Where the message begins that a begun fragment belongs to, until the next call of anything but this;
  /// null: it is thrown away.
  std::byte* target(const WireHeader& header);
  /// All of a begun fragment is there.
  void end(const WireHeader& header, std::size_t fragment);
  /// The header breaks the protocol.
  void refuse(const WireHeader& header, const std::string& what) { fail(header, what); }

  /// A whole message of this rank to itself.
  void deliver_own(const SendOp& op);

  /// Ranks that asked since the last call whether a fragment of theirs came: it did. One entry each time.
  std::vector<Rank> take_asked() { return std::exchange(asked_, {}); }
  struct Confirmed {
    Rank by;
    SendWindow::Confirmation what;
  };
  /// Counts what comes.
  Arrivals& arrivals() { return arrivals_; }
  /// What came since the last call of what peers were asked to confirm.
  std::vector<Confirmed> take_confirmed() { return std::exchange(confirmed_, {}); }
  /// Not null once something came that breaks the protocol: Error{Transport}.
  std::exception_ptr broken() const { return broken_; }
  std::uint64_t bytes_received() const { return bytes_received_; }
  /// A connection of another job epoch came, all of which is thrown away.
  void count_stale() { ++stale_; }
  /// Fragments of strangers and of other job epochs, which were thrown away.
  std::uint64_t stale() const { return stale_; }

 private:
  /// A message or put of which some source has sent a part.
  struct Incoming {
    WireHeader header;
    std::uint64_t received = 0;
    std::byte* target = nullptr;  // null: thrown away
    RecvOp* receive = nullptr;
    KeptMessage* kept = nullptr;
    std::exception_ptr damage;
  };
  struct Source {
    std::vector<Incoming> open;  // in order
    std::uint64_t first = 0;     // of open's first one, or of the next message
    std::uint64_t next = 0;      // message whose fragment begins next
    std::uint64_t offset = 0;    // of that fragment
  };
  Source& source(std::int32_t rank) { return sources_[static_cast<std::size_t>(rank)]; }
  void take(ConstView header, ConstView fragment, std::optional<Rank> from);
  Incoming* find(const WireHeader& header);
  void open(Source& from, const WireHeader& header);
  void open_message(Incoming& incoming);
  void finish(Incoming& incoming);
  void fail(const WireHeader& header, const std::string& what);

  Setting setting_;
  Completions& completions_;
  const RegionTable& regions_;
  SignalPage page_;
  KeptMessages kept_;
  Mailbox<KeptMessage> mailbox_;
  std::vector<Source> sources_;
  Arrivals arrivals_;
  std::vector<Rank> asked_;
  std::vector<Confirmed> confirmed_;
  std::exception_ptr broken_;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t stale_ = 0;
};

}  // namespace taxon::net
