#pragma once

#include <vector>

#include "sim/event_queue.h"

namespace taxon::sim {

/// Things that take a while and send messages over wires (links, lanes) meanwhile: each at its own steady
/// pace when it is alone, slower where others fill the wires. What a wire does with several of them is what a
/// queue does that serves whole messages in the order in which they come: each message waits for what stands
/// there.
///
/// A flow alternates between waiting at the wire and everything else, `cycle` long in all, of which its
/// messages stand at the wire for `stay`. Where the wire can't serve all at full pace, all messages wait
/// equally long, namely for so long that it is just busy (a closed network of queues: Reiser and Lavenberg,
/// "Mean-value analysis of closed multichain queuing networks", JACM 1980). So a flow that keeps many bytes
/// queued gets more of the wire than one that sends little at a time.
class Flows final : private Action {
 public:
  /// What a flow alone does with a wire.
  struct Load {
    std::uint32_t wire = 0;
    float part = 0;         // of the wire's time that it takes
    float stay = 0;         // picoseconds that a message stands there
    float stands_over = 0;  // and behind others of the flow
  };

  /// One of them. Progress is the time that it would have taken so far alone.
  class Flow {
   public:
    Flow() = default;
    Flow(const Flow&) = delete;

   protected:
    ~Flow() = default;
    /// The progress that call_at() asked for is made. The flow may be gone afterwards.
    virtual void made(Duration progress) = 0;

   private:
    friend class Flows;
    std::vector<Load> loads_;
    double cycle_ = 0, most_ = 0;     // picoseconds; the largest part
    double limit_ = 1;                // the pace that its tightest wire leaves it
    double progress_ = 0, pace_ = 1;  // progress in picoseconds
    Instant since_;
    Duration called_{-1};
    std::uint32_t slot_ = 0;
    std::uint64_t visited_ = 0;
    bool known_ = false, loading_ = false;
  };

  Flows(EventQueue& queue, std::size_t wires) : queue_(queue), wires_(wires) {}
  Flows(const Flows&) = delete;
  virtual ~Flows() = default;

  struct Start {
    std::vector<Load> loads;
    Duration cycle{0};
    Duration progress{0};  // made already
  };
  /// From now on.
  void start(Flow& flow, Start start);
  /// Calls it once, as soon as it has made so much progress; in the place of an earlier call.
  void call_at(Flow& flow, Duration progress);
  Duration progress(const Flow& flow) const;
  /// It uses no wires any more, and goes on at full pace.
  void unload(Flow& flow);
  /// Forgets it. Every flow that was started, before it dies.
  void end(Flow& flow);

 private:
  struct Passing {
    Flow* flow;
    std::uint32_t load;  // which of its loads
  };
  struct Wire {
    double load = 0, stands = 0;  // sums over the flows
    std::vector<Passing> flows;   // in the order in which they came
    std::uint64_t visited = 0;
    bool changed = false;
  };
  struct Slot {
    Flow* flow = nullptr;
    std::uint32_t generation = 0;
  };
  static constexpr double kFull = 1.001;
  /// A flow that takes less of a wire does not count for the others there.
  static constexpr double kCounts = 0.02;
  static constexpr std::uint64_t kShare = ~std::uint64_t{0};

  void happen(std::uint64_t call) override;
  void move(Flow& flow);
  void set_pace(Flow& flow, double pace);
  void plan(Flow& flow);
  void change(std::uint32_t wire);
  void share_again();
  void share(Wire& wire);
  double waiting(const Wire& wire);
  static double pace_at(const Passing& passing, double waiting);

  EventQueue& queue_;
  std::vector<Wire> wires_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> changed_;  // wires
  bool due_ = false;
  std::uint64_t visit_ = 0;
  std::vector<double> limits_;  // of a wire's flows
};

}  // namespace taxon::sim
