#pragma once

#include <optional>
#include <string>
#include <vector>

namespace taxon::bench {

/// Which process of its side this one is, and where the side's processes meet to pass commands on.
struct Place {
  int rank = 0;
  int ranks = 1;
  std::string host = "127.0.0.1";  // rank 0's address
  int port = 0;                    // free at rank 0's host
};

/// Value of `--NAME VALUE` in a command line, or `otherwise`.
std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise);
/// From --rank, --ranks, --host and --port.
Place place_from(int argc, char** argv);

/// Passes commands from rank 0's standard input to every rank, over plain TCP and blocking reads: a side that
/// is not being measured sleeps in the kernel, whatever its own library would do while waiting.
class CommandChannel {
 public:
  /// Collective. Throws std::runtime_error when the ranks do not find each other within a minute.
  explicit CommandChannel(Place place);
  ~CommandChannel();
  CommandChannel(const CommandChannel&) = delete;

  /// Collective: the next line, equal on all ranks; empty at the end of the input or when a rank is gone.
  std::optional<std::string> next();
  /// Collective: every rank's values at rank 0, by rank; nothing elsewhere.
  std::vector<std::vector<double>> gather(const std::vector<double>& values);
  const Place& place() const { return place_; }

 private:
  void send_line(int fd, const std::string& line);
  std::optional<std::string> receive_line(std::size_t peer);
  Place place_;
  std::vector<int> peers_;  // rank 0: connection to rank i + 1; others: to rank 0
  std::vector<std::string> pending_;
};

}  // namespace taxon::bench
