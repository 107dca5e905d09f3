#include "net/wire/network.h"

#include <fmt/format.h>

#include "base/error.h"

namespace taxon::net {

void NetworkPeer::fail(const std::string& why) {
  fail_with(Error(ErrorKind::PeerLost, fmt::format("the connection to rank {} broke: {}", rank.value(), why),
                  ErrorContext{rank, "connection", {}}));
}

void NetworkPeer::fail_with(const Error& error) {
  if (lost) return;
  lost_is_news = true;
  lost = std::make_exception_ptr(error);
}

}  // namespace taxon::net
