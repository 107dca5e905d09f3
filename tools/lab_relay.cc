// The switch of a test cluster with long paths (tools/lab up --delay-ms): passes Ethernet frames on between
// the interfaces that it is given, each so long after it came. Connections inside see a round trip of twice
// the delay, by the kernel's own TCP. Frames keep their order. Those that the sender's kernel has left to a
// network card to split (64 KiB at a time) pass whole, so that 1 Gbit/s costs a few hundredths of a core.
//
//   lab_relay DELAY_US INTERFACE INTERFACE...
//
// Prints "ready" when it listens to all of them; then it runs until it is killed.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Mac = std::array<std::uint8_t, ETH_ALEN>;

/// A frame of 64 KiB with the header that says how a network card would split it, and some room.
constexpr std::size_t kLargest = 68 << 10;
/// Bytes on their way at most: half a second of 4 Gbit/s. What comes beyond waits in the kernel, or is lost.
constexpr std::size_t kRing = 256 << 20;
constexpr int kKernelBuffer = 256 << 20;
/// Frames of one interface before the others get their turn.
constexpr int kBurst = 64;

void require(bool condition, const std::string& what) {
  if (!condition) throw std::system_error(errno, std::generic_category(), what);
}

template <typename T>
void set_option(int fd, int level, int name, const T& value, const std::string& what) {
  require(setsockopt(fd, level, name, &value, sizeof value) == 0, what);
}

/// All frames that come in at an interface, with what its card would do to them.
int open_port(const std::string& interface) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  require(fd >= 0, "no packet socket");
  set_option(fd, SOL_PACKET, PACKET_VNET_HDR, 1, "frames can't be had unsplit");
  set_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "own frames can't be left out");
  set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, kKernelBuffer, "no buffer");
  set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, kKernelBuffer, "no buffer");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  require(address.sll_ifindex != 0, interface);
  require(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, interface);
  return fd;
}

/// Frames in the order in which they came. All wait equally long, so the oldest is always due first.
class Queue {
 public:
  struct Frame {
    Clock::time_point due;
    std::size_t from;  // a port
    std::byte* data;
    std::size_t size;
  };

  Queue() {
    void* const memory =
        mmap(nullptr, kRing, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(memory != MAP_FAILED, "no memory");
    ring_ = static_cast<std::byte*>(memory);
  }
  Queue(const Queue&) = delete;

  /// Where the next frame goes, kLargest bytes; null while there is no room.
  std::byte* room() {
    const std::size_t oldest = frames_.empty() ? 0 : static_cast<std::size_t>(frames_.front().data - ring_);
    if (frames_.empty()) end_ = 0;  // touches no more memory than needed
    const bool wrapped = !frames_.empty() && end_ <= oldest;
    if (!wrapped && end_ + kLargest > kRing) {
      if (oldest < kLargest) return nullptr;
      end_ = 0;
      return ring_;
    }
    // Never full to the last byte: that would look empty.
    return wrapped && end_ + kLargest >= oldest ? nullptr : ring_ + end_;
  }
  /// The frame lies in room().
  void push(Frame frame) {
    end_ = static_cast<std::size_t>(frame.data - ring_) + frame.size;
    frames_.push_back(frame);
  }
  bool empty() const { return frames_.empty(); }
  const Frame& front() const { return frames_.front(); }
  void pop() { frames_.pop_front(); }

 private:
  std::byte* ring_;
  std::size_t end_ = 0;
  std::deque<Frame> frames_;
};

class Relay {
 public:
  Relay(Clock::duration delay, const std::vector<std::string>& interfaces) : delay_(delay) {
    for (const std::string& interface : interfaces)
      ports_.push_back({.fd = open_port(interface), .events = POLLIN});
  }

  [[noreturn]] void run() {
    for (;;) {
      bool any = false;
      for (std::size_t port = 0; port < ports_.size(); ++port) any |= receive(port);
      send_due();
      if (!any) sleep();
    }
  }

 private:
  bool receive(std::size_t port) {
    for (int burst = 0; burst < kBurst; ++burst) {
      std::byte* const place = queue_.room();
      if (place == nullptr) return burst > 0;
      const ssize_t size = recv(ports_[port].fd, place, kLargest, 0);
      if (size < 0) require(errno == EAGAIN || errno == EINTR || errno == ENETDOWN, "receive");
      if (size < static_cast<ssize_t>(kHeader + sizeof(ether_header))) return burst > 0;
      ether_header ethernet;
      std::memcpy(&ethernet, place + kHeader, sizeof ethernet);
      where_[std::to_array(ethernet.ether_shost)] = port;
      queue_.push({Clock::now() + delay_, port, place, static_cast<std::size_t>(size)});
    }
    return true;
  }

  void send_due() {
    const auto now = Clock::now();
    for (; !queue_.empty() && queue_.front().due <= now; queue_.pop()) {
      const Queue::Frame& frame = queue_.front();
      ether_header ethernet;
      std::memcpy(&ethernet, frame.data + kHeader, sizeof ethernet);
      const auto known = where_.find(std::to_array(ethernet.ether_dhost));
      for (std::size_t port = 0; port < ports_.size(); ++port) {
        if (port == frame.from || (known != where_.end() && known->second != port)) continue;
        // A full link loses frames, as a switch's does.
        if (send(ports_[port].fd, frame.data, frame.size, 0) < 0 && errno != ENOBUFS && errno != EAGAIN)
          tell(errno);
      }
    }
  }

  void sleep() {
    timespec rest{};
    if (!queue_.empty()) {
      const auto left = std::max(Clock::duration::zero(), queue_.front().due - Clock::now());
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
      rest = {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(left - seconds).count()};
    }
    // With no room for more it is the oldest frame that matters.
    const bool full = queue_.room() == nullptr;
    if (ppoll(full ? nullptr : ports_.data(), full ? 0 : ports_.size(), queue_.empty() ? nullptr : &rest,
              nullptr) < 0)
      require(errno == EINTR, "poll");
  }

  /// A frame that no link takes is lost too, but nobody expects that.
  void tell(int error) {
    if (told_.insert(error).second)
      std::cerr << "lab_relay: frames are lost: " << std::generic_category().message(error) << std::endl;
  }

  /// What struct virtio_net_hdr takes ahead of each frame; its header is not for C++.
  static constexpr std::size_t kHeader = 10;
  const Clock::duration delay_;
  std::vector<pollfd> ports_;
  std::map<Mac, std::size_t> where_;  // ports by the addresses that were seen behind them
  Queue queue_;
  std::set<int> told_;
};

/// The network does not wait for the hosts' programs. Without the right to it, it may.
void go_first() {
  const sched_param first{.sched_priority = 1};
  sched_setscheduler(0, SCHED_FIFO, &first);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw std::runtime_error("lab_relay DELAY_US INTERFACE INTERFACE...");
    go_first();
    Relay relay(std::chrono::microseconds(std::stoll(argv[1])), {argv + 2, argv + argc});
    std::cout << "ready" << std::endl;
    relay.run();
  } catch (const std::exception& error) {
    std::cerr << "lab_relay: " << error.what() << std::endl;
    return 1;
  }
}
