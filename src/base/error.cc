#include "base/error.h"

#include "base/check.h"

namespace taxon {
namespace {

struct KindRow {
  ErrorKind kind;
  const char* name;
  int exit_code;
};

// 2 is the shell's word for wrong usage; 65-78 are sysexits.h's, 75 means "try again"; 143 is 128 + SIGTERM,
// which schedulers read as "stopped on purpose, may be resumed".
constexpr KindRow kKinds[] = {
    {ErrorKind::Usage, "usage", 2},
    {ErrorKind::Data, "data", 65},
    {ErrorKind::Output, "output", 73},
    {ErrorKind::Checkpoint, "checkpoint", 66},
    {ErrorKind::Rendezvous, "rendezvous", 69},
    {ErrorKind::PeerLost, "peer-lost", 75},
    {ErrorKind::Deadline, "deadline", 74},
    {ErrorKind::Mismatch, "mismatch", 76},
    {ErrorKind::Diverged, "diverged", 67},
    {ErrorKind::Transport, "transport", 71},
    {ErrorKind::Resources, "resources", 72},
    {ErrorKind::Interrupted, "interrupted", 143},
    {ErrorKind::Internal, "internal", 70},
};

const KindRow& row(ErrorKind kind) {
  for (const KindRow& r : kKinds)
    if (r.kind == kind) return r;
  TAXON_CHECK(false, "error kind ", static_cast<int>(kind), " has no row");
}

}  // namespace

const char* to_string(ErrorKind kind) { return row(kind).name; }
int exit_code(ErrorKind kind) { return row(kind).exit_code; }

const std::vector<ErrorKind>& all_error_kinds() {
  static const std::vector<ErrorKind> kinds = [] {
    std::vector<ErrorKind> all;
    for (const KindRow& r : kKinds) all.push_back(r.kind);
    return all;
  }();
  return kinds;
}

}  // namespace taxon
