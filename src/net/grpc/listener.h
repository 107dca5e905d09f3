#pragma once

#include <grpcpp/server.h>

#include <array>
#include <memory>
#include <vector>

#include "net/grpc/endpoints.h"
#include "net/grpc/events.h"

namespace taxon::net {

/// The calls of peers to this rank: hands their fragments to `events`, those of one peer in order, a few
/// ahead of the rank's thread; then it stops to read, and gRPC's flow control stops the sender.
class Listener {
 public:
  /// Listens on every interface, at ports that the kernel chooses. Calls without `token` are refused. Throws
  /// Error{Transport} when it can't.
  Listener(int world_size, const std::vector<Interface>& interfaces, std::array<std::uint64_t, 2> token,
           std::shared_ptr<Events> events);
  Listener(const Listener&) = delete;
  /// Ends the calls that are still open. REQUIRES: `events` is closed, and what was left in it was taken.
  ~Listener();

  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

 private:
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<Endpoint> endpoints_;
};

}  // namespace taxon::net
