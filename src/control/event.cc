#include "control/event.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/units.h"

namespace taxon::control {
namespace {

struct Describe {
  std::string operator()(const PeerLost& e) const {
    return fmt::format("rank {} was lost: {}", e.rank.value(), e.reason);
  }
  std::string operator()(const Departed& e) const {
    return fmt::format("rank {} was lost: {}", e.rank.value(), e.reason);
  }
  std::string operator()(const Aborted& e) const {
    return fmt::format("rank {} ended the run ({}): {}", e.by.value(), to_string(e.kind), e.message);
  }
  std::string operator()(const Silent& e) const {
    return fmt::format(
        "rank {} has been silent for {}: its process is stopped, or its host or link is down; waiting for it",
        e.rank.value(), format_seconds(e.seconds));
  }
  std::string operator()(const Returned& e) const {
    return fmt::format("rank {} is back after {} of silence", e.rank.value(), format_seconds(e.seconds));
  }
  std::string operator()(const DeadlinePassed& e) const {
    return fmt::format("rank {} has been silent for {}, longer than the plan's deadline for a peer",
                       e.rank.value(), format_seconds(e.seconds));
  }
  std::string operator()(const StopRequested& e) const {
    return fmt::format("rank {} asks for an orderly end of the run", e.by.value());
  }
  std::string operator()(const HangReport& e) const { return fmt::format("{}", fmt::join(e.lines, "\n")); }
};

/// Failures of the run rather than of a rank, which mean the same for everybody.
bool is_shared(ErrorKind kind) {
  return kind == ErrorKind::Mismatch || kind == ErrorKind::Diverged || kind == ErrorKind::Interrupted;
}

struct ToError {
  Error operator()(const PeerLost& e) const {
    return Error(ErrorKind::PeerLost, describe(e), {.rank = e.rank});
  }
  Error operator()(const Aborted& e) const {
    return Error(is_shared(e.kind) ? e.kind : ErrorKind::PeerLost, describe(e), {.rank = e.by});
  }
  Error operator()(const DeadlinePassed& e) const {
    return Error(ErrorKind::Deadline, describe(e), {.rank = e.rank});
  }
  template <class Harmless>
  Error operator()(const Harmless& e) const {
    TAXON_CHECK(false, "this event ends nothing: ", describe(e));
  }
};

}  // namespace

std::string describe(const Event& event) { return std::visit(Describe(), event); }

bool is_fatal(const Event& event) {
  return std::holds_alternative<PeerLost>(event) || std::holds_alternative<Aborted>(event) ||
         std::holds_alternative<DeadlinePassed>(event);
}

Error error_of(const Event& event) { return std::visit(ToError(), event); }

}  // namespace taxon::control
