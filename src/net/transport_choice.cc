#include "net/transport_choice.h"

#include <fmt/format.h>

#include "net/routed_transport.h"
#if defined(TAXON_WITH_GRPC)
#include "net/grpc/grpc_transport.h"
#endif

namespace taxon::net {
namespace {

using Made = std::unique_ptr<ProcessTransport>;

Made make_routed(task::Executor& executor, task::PendingOps& pending, ProcessTransportOptions options) {
  return std::make_unique<RoutedTransport>(executor, pending, std::move(options));
}

#if defined(TAXON_WITH_GRPC)
template <GrpcTransport::Calls calls>
Made make_grpc(task::Executor& executor, task::PendingOps& pending, ProcessTransportOptions options) {
  return std::make_unique<GrpcTransport>(executor, pending, std::move(options), calls);
}
constexpr auto kMakeStreaming = &make_grpc<GrpcTransport::Calls::Streaming>;
constexpr auto kMakeUnary = &make_grpc<GrpcTransport::Calls::Unary>;
#else
constexpr decltype(TransportChoice::make) kMakeStreaming = nullptr, kMakeUnary = nullptr;
#endif

constexpr auto kShared = TransportChoice::Memory::Shared;
using Tcp = TransportChoice::Tcp;
constexpr const char* kGrpcPackage = "libgrpc++-dev";

// System V segments vanish with their last process, however it ends, and are not limited by the size of
// /dev/shm, which containers keep at 64 MB. Copies through the kernel (cma) are not used by any protocol
// here.
constexpr TransportChoice kChoices[] = {
    {.name = "auto",
     .explanation = "shared memory within a host, RDMA or Taxon's TCP between hosts",
     .memory = kShared,
     .tls_within_host = "self,sysv",
     .tls = "^posix,cma,tcp",
     .tcp = Tcp::BetweenHosts,
     .make = make_routed},
    {.name = "shm",
     .explanation = "shared memory only; all ranks on one host",
     .memory = kShared,
     .tls_within_host = "self,sysv",
     .tls = "self,sysv",
     .leaves_host = false,
     .make = make_routed},
    {.name = "posix",
     .explanation = "like auto, with regions in /dev/shm, where System V shared memory is forbidden",
     .memory = kShared,
     .tls_within_host = "self,posix",
     .tls = "^sysv,cma,tcp",
     .tcp = Tcp::BetweenHosts,
     .make = make_routed},
    {.name = "tcp",
     .explanation = "Taxon's TCP only, also within a host",
     .tcp = Tcp::Always,
     .make = make_routed},
    {.name = "ucx-tcp",
     .explanation = "to compare with: UCX's TCP only, which trusts its network",
     .tls_within_host = "self,tcp",
     .tls = "self,tcp",
     .make = make_routed},
    {.name = "grpc",
     .explanation = "to compare and debug with: gRPC, one stream per direction",
     .make = kMakeStreaming,
     .package = kGrpcPackage},
    {.name = "grpc-unary",
     .explanation = "to compare and debug with: gRPC, one call per fragment",
     .make = kMakeUnary,
     .package = kGrpcPackage},
};

}  // namespace

std::span<const TransportChoice> transport_choices() { return kChoices; }

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const TransportChoice& choice : kChoices) names.emplace_back(choice.name);
  return names;
}

const TransportChoice& find_transport_choice(const std::string& name) {
  std::string names;
  for (const TransportChoice& choice : kChoices) {
    if (name == choice.name) return choice;
    names += fmt::format("\n  {}: {}", choice.name, choice.explanation);
  }
  throw Error(ErrorKind::Usage, fmt::format("unknown transport \"{}\"; there are:{}", name, names));
}

bool can_encrypt(const TransportChoice& choice) {
  // Within a host nothing is to be hidden from.
  return choice.tcp != Tcp::None || !choice.leaves_host;
}

std::string what_is_missing(const TransportChoice& choice) {
  if (choice.make != nullptr) return {};
  return fmt::format("this build has no \"{}\": install {}, then configure and build anew", choice.name,
                     choice.package);
}

std::unique_ptr<ProcessTransport> make_transport(task::Executor& executor, task::PendingOps& pending,
                                                 ProcessTransportOptions options) {
  const TransportChoice& choice = find_transport_choice(options.transport);
  if (const std::string missing = what_is_missing(choice); !missing.empty())
    throw Error(ErrorKind::Usage, missing);
  if (options.encryption == ProcessTransportOptions::Encryption::Tls && !can_encrypt(choice))
    throw Error(ErrorKind::Usage, fmt::format("transport \"{}\": {}", choice.name, kHowToEncrypt));
  return choice.make(executor, pending, std::move(options));
}

}  // namespace taxon::net
