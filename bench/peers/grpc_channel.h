#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "side/channel.h"

namespace taxon::bench {

/// Where a gRPC server listens.
struct GrpcAddresses {
  std::string tcp, socket;
};

/// --grpc-host, --grpc-port, --socket. Hosts of a cluster may have no path for a socket in common.
inline GrpcAddresses grpc_addresses(int argc, char** argv) {
  return {
      .tcp = option(argc, argv, "grpc-host", "127.0.0.1") + ":" + option(argc, argv, "grpc-port", "50051"),
      .socket = "unix:" + option(argc, argv, "socket", "bench-grpc.socket")};
}

/// What makes large messages cheap, on both sides: (argument, value). Without retries no message is held back
/// for another try.
inline constexpr std::pair<const char*, int> kGrpcArguments[] = {
    {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1},
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1},
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, (1 << 24) - 1},
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 24},
    {GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 24},
    {GRPC_ARG_ENABLE_RETRIES, 0},
    {GRPC_ARG_ENABLE_HTTP_PROXY, 0}};

/// Throws std::runtime_error when it can't listen. `service` outlives the server.
inline std::unique_ptr<grpc::Server> start_grpc_server(const GrpcAddresses& addresses,
                                                       grpc::Service& service) {
  grpc::ServerBuilder builder;
  for (const auto& [argument, value] : kGrpcArguments) builder.AddChannelArgument(argument, value);
  builder.AddListeningPort(addresses.tcp, grpc::InsecureServerCredentials());
  builder.AddListeningPort(addresses.socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server) throw std::runtime_error("gRPC can't listen at " + addresses.tcp);
  return server;
}

inline std::shared_ptr<grpc::Channel> make_grpc_channel(const std::string& address) {
  grpc::ChannelArguments arguments;
  for (const auto& [argument, value] : kGrpcArguments) arguments.SetInt(argument, value);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

inline void await_grpc_channel(grpc::Channel& channel, const std::string& address) {
  if (!channel.WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30)))
    throw std::runtime_error("gRPC does not reach " + address);
}

}  // namespace taxon::bench
