#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "comm/communicator.h"
#include "comm/runtime.h"
#include "control/session.h"
#include "net/transport_choice.h"
#include "side/channel.h"
#include "task/event.h"
#include "task/poll_loop.h"
#include "tensor/cpu_device.h"

namespace taxon::bench {

/// One rank of a job with the real doors, as the taxon program has them: control network, UCX, poll loop. The
/// loop runs on the thread that calls run(); other threads hand it work.
class OwnRank {
 public:
  /// As in a plan's `transport`.
  struct Network {
    std::string kind = "auto";
    std::string encryption = "none";
    int connections = 0;
  };
  /// Collective: joins the job at `place.host`, port `control_port`. The secret is TAXON_SECRET's.
  OwnRank(const Place& place, int control_port, const Network& network);
  ~OwnRank();

  comm::Communicator& group() { return *group_; }
  net::Transport& transport() { return *transport_; }

  /// Runs the loop until stop(). Throws what the work threw.
  void run();
  /// Any other thread: runs `work` on the loop and waits for its end. Throws what it threw.
  void perform(const std::function<task::Task<void>()>& work);
  /// Any other thread: ends run().
  void stop();

 private:
  struct Job {
    const std::function<task::Task<void>()>* work;  // null: stop
    std::promise<void> done;
  };
  task::Task<void> serve();
  void hand_over(Job* job);

  task::PollLoop loop_;
  task::PendingOps waits_;
  comm::FlightRecorder recorder_;
  tensor::CpuDevice device_{loop_};
  std::unique_ptr<control::Session> session_;
  std::unique_ptr<net::ProcessTransport> transport_;
  std::unique_ptr<comm::Runtime> runtime_;
  std::unique_ptr<comm::Communicator> group_;
  std::deque<Job*> jobs_;
  std::unique_ptr<task::Event> arrived_;
};

/// The main() of a side that is a rank: joins, runs the loop here and `requests` on a thread of its own,
/// until that returns. --rank --ranks --host --port as every side; --job-port: for the control network;
/// --transport, --encryption and --connections: as in a plan's `transport`.
int run_own_side(int argc, char** argv, const std::function<void(CommandChannel&, OwnRank&)>& requests);

}  // namespace taxon::bench
