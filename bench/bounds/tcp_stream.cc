// What one plain TCP stream reaches between two hosts. Variants: one_way (rank 0 to rank 1), ring (every rank
// sends to the next while it receives from the one before).
// --rank --ranks --host --port as every side; --next: address of the next rank's host.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "side/side.h"

namespace taxon::bench {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

/// Every rank's connection to the next and from the one before.
class Ring {
 public:
  Ring(const Place& place, const std::string& next) : place_(place), buffer_(std::size_t{1} << 18) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    const int yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    auto address = address_of("0.0.0.0", place.port + 1 + place.rank);
    require(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
    require(listen(listener, 1) == 0, "listen");
    address = address_of(next, place.port + 1 + (place.rank + 1) % place.ranks);
    do {
      if (next_ >= 0) close(next_);
      next_ = socket(AF_INET, SOCK_STREAM, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } while (connect(next_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0);
    previous_ = accept(listener, nullptr, nullptr);
    require(previous_ >= 0, "accept");
    close(listener);
  }
  ~Ring() {
    close(next_);
    close(previous_);
  }

  void send_bytes(std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t n = ::send(next_, buffer_.data(), std::min(bytes, buffer_.size()), MSG_NOSIGNAL);
      require(n > 0, "send");
      bytes -= static_cast<std::size_t>(n);
    }
  }
  void receive_bytes(std::size_t bytes) {
    std::vector<char> buffer(buffer_.size());
    while (bytes > 0) {
      const ssize_t n = recv(previous_, buffer.data(), std::min(bytes, buffer.size()), 0);
      require(n > 0, "receive");
      bytes -= static_cast<std::size_t>(n);
    }
  }

  Outcome measure(const Request& request) {
    const bool ring = request.variant == "ring";
    const bool sends = ring || place_.rank == 0, receives = ring || place_.rank == 1;
    Outcome outcome{.verified = true};  // TCP delivers all bytes or fails
    for (int block = 0; block < request.blocks; ++block) {
      barrier();
      const auto begin = std::chrono::steady_clock::now();
      const std::size_t bytes = request.bytes * static_cast<std::size_t>(request.iterations);
      std::thread sender([&] { send_bytes(sends ? bytes : 0); });
      receive_bytes(receives ? bytes : 0);
      sender.join();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      outcome.seconds.push_back(took.count() / request.iterations);
    }
    return outcome;
  }

 private:
  /// A byte twice around the ring.
  void barrier() {
    for (int round = 0; round < 2; ++round) {
      if (place_.rank != 0) receive_bytes(1);
      send_bytes(1);
      if (place_.rank == 0) receive_bytes(1);
    }
  }
  Place place_;
  std::vector<char> buffer_;
  int next_ = -1, previous_ = -1;
};

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon::bench;
  const Place place = place_from(argc, argv);
  CommandChannel channel(place);
  Ring ring(place, option(argc, argv, "next", "127.0.0.1"));
  serve(channel, [&](const Request& request) { return ring.measure(request); });
}
