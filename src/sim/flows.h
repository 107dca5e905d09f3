#pragma once

#include <vector>

#include "sim/event_queue.h"

namespace taxon::sim {

/// Things that take a while and use wires (links, lanes) meanwhile, each at its own steady pace. Where more
/// is under way than a wire can serve, those concerned slow down alike, and what they leave free elsewhere
/// goes to others: max-min fair shares of the paces that they would have alone (Bertsekas and Gallager, "Data
/// Networks", section 6.5.2).
class Flows final : private Action {
 public:
  /// What part of a wire's time a flow takes at full pace.
  struct Load {
    std::uint32_t wire = 0;
    double part = 0;
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

  /// From now on, with so much progress made already.
  void start(Flow& flow, std::vector<Load> loads, Duration progress);
  /// Calls it once, as soon as it has made so much progress; in the place of an earlier call.
  void call_at(Flow& flow, Duration progress);
  Duration progress(const Flow& flow) const;
  /// It uses no wires any more, and goes on at full pace.
  void unload(Flow& flow);
  /// Forgets it. Every flow that was started, before it dies.
  void end(Flow& flow);

 private:
  struct Wire {
    double load = 0;
    std::vector<Flow*> flows;  // in the order in which they came
    std::uint64_t visited = 0;
    double left = 0, wanted = 0;  // while paces are dealt out
  };
  struct Slot {
    Flow* flow = nullptr;
    std::uint32_t generation = 0;
  };
  static constexpr double kFull = 1 + 1e-9;

  void happen(std::uint64_t call) override;
  void move(Flow& flow);
  void set_pace(Flow& flow, double pace);
  void plan(Flow& flow);
  void share_again(const std::vector<std::uint32_t>& wires);
  void collect(Flow& flow);

  EventQueue& queue_;
  std::vector<Wire> wires_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t visit_ = 0;
  std::vector<Flow*> concerned_;
  std::vector<std::uint32_t> crowded_;
};

}  // namespace taxon::sim
