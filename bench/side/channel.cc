#include "side/channel.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace taxon::bench {
namespace {

sockaddr_in resolve(const Place& place) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (getaddrinfo(place.host.c_str(), nullptr, &hints, &found) != 0) {
    throw std::runtime_error("cannot resolve " + place.host);
  }
  sockaddr_in address = *reinterpret_cast<sockaddr_in*>(found->ai_addr);
  freeaddrinfo(found);
  address.sin_port = htons(static_cast<std::uint16_t>(place.port));
  return address;
}

int listen_at(sockaddr_in address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(fd, 256) != 0) {
    throw std::runtime_error(std::string("cannot listen: ") + std::strerror(errno));
  }
  return fd;
}

int connect_to(sockaddr_in address) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (true) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    close(fd);
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("rank 0 does not answer");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == "--" + name) return argv[i + 1];
  }
  return otherwise;
}

Place place_from(int argc, char** argv) {
  return {.rank = std::stoi(option(argc, argv, "rank", "0")),
          .ranks = std::stoi(option(argc, argv, "ranks", "1")),
          .host = option(argc, argv, "host", "127.0.0.1"),
          .port = std::stoi(option(argc, argv, "port", "0"))};
}

CommandChannel::CommandChannel(Place place) : place_(std::move(place)) {
  if (place_.ranks == 1) return;
  const sockaddr_in address = resolve(place_);
  const int yes = 1;
  if (place_.rank != 0) {
    peers_ = {connect_to(address)};
    pending_.resize(1);
    send_line(peers_[0], std::to_string(place_.rank));
    return;
  }
  const int listener = listen_at(address);
  peers_.assign(static_cast<std::size_t>(place_.ranks - 1), -1);
  pending_.resize(peers_.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const int fd = accept(listener, nullptr, nullptr);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    std::string line;
    for (char c = 0; read(fd, &c, 1) == 1 && c != '\n';) line += c;
    peers_.at(static_cast<std::size_t>(std::stoi(line) - 1)) = fd;
  }
  close(listener);
}

CommandChannel::~CommandChannel() {
  for (const int fd : peers_) close(fd);
}

void CommandChannel::send_line(int fd, const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;  // the peer is gone; its next answer is missing too
    sent += static_cast<std::size_t>(n);
  }
}

std::optional<std::string> CommandChannel::receive_line(std::size_t peer) {
  std::string& pending = pending_[peer];
  while (pending.find('\n') == std::string::npos) {
    char buffer[4096];
    const ssize_t n = read(peers_[peer], buffer, sizeof buffer);
    if (n <= 0) return std::nullopt;
    pending.append(buffer, static_cast<std::size_t>(n));
  }
  const std::size_t end = pending.find('\n');
  std::string line = pending.substr(0, end);
  pending.erase(0, end + 1);
  return line;
}

std::optional<std::string> CommandChannel::next() {
  if (place_.rank != 0) return receive_line(0);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  for (const int fd : peers_) send_line(fd, line);
  return line;
}

std::vector<std::vector<double>> CommandChannel::gather(const std::vector<double>& values) {
  if (place_.rank != 0) {
    std::ostringstream line;
    line.precision(17);
    for (const double value : values) line << value << ' ';
    send_line(peers_[0], line.str());
    return {};
  }
  std::vector<std::vector<double>> all{values};
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    const auto line = receive_line(peer);
    if (!line) throw std::runtime_error("rank " + std::to_string(peer + 1) + " is gone");
    std::istringstream words(*line);
    auto& theirs = all.emplace_back();
    for (double value = 0; words >> value;) theirs.push_back(value);
  }
  return all;
}

}  // namespace taxon::bench
