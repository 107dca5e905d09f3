// One rank of a job as a process: joins, prints what happens a line each, and obeys the words on its input.
// Usage: control_peer RANK WORLD PORT
#include <signal.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>

#include "control/session.h"

using namespace taxon;
using namespace taxon::control;

namespace {

std::mutex output_mutex;

void print(const std::string& line) {
  std::lock_guard lock(output_mutex);
  std::cout << line << std::endl;
}

JoinOptions options_from(char** argv) {
  using std::chrono::milliseconds;
  JoinOptions options;
  options.rank = Rank(std::atoi(argv[1]));
  options.world_size = std::atoi(argv[2]);
  options.port = static_cast<std::uint16_t>(std::atoi(argv[3]));
  options.secret = Secret::from_text("a secret for processes");
  options.version = "1";
  options.host_id = "here";
  options.timeouts = {.join = milliseconds(60'000),
                      .silence = milliseconds(1500),
                      .peer = milliseconds(std::atoi(argv[4])),
                      .hang = milliseconds(8000),
                      .heartbeat = milliseconds(50),
                      .progress = milliseconds(500)};
  return options;
}

void obey(Session& session, const std::string& word) {
  if (word == "leave") {
    session.leave();
    print("left");
  } else if (word == "abort") {
    session.abort(ErrorKind::Data, "train.idx is cut short");
    print("aborted");
  } else if (word == "stop") {
    session.request_stop();
  } else if (word == "exchange") {
    std::byte mine{static_cast<unsigned char>(session.rank().value())};
    print("exchanged " + std::to_string(session.exchange("numbers", {&mine, 1}).size()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 5) return 2;
  try {
    auto session = Session::join(options_from(argv));
    session->on_event([](const Event& event) { print("event: " + describe(event)); });
    print("joined");
    for (std::string word; std::getline(std::cin, word);) obey(*session, word);
  } catch (const Error& error) {
    print(std::string("error ") + to_string(error.kind()) + ": " + error.what());
    return exit_code(error.kind());
  }
  return 0;
}
