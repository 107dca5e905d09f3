#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/failure_monitor.h"
#include "exchange/compression/selected_entries.h"
#include "exchange/layout/bucket.h"
#include "exchange/replay/replay_gate.h"
#include "exchange/server/consistency.h"
#include "exchange/server/server_client.h"
#include "exchange/server/server_state.h"
#include "optim/staleness.h"
#include "task/scope.h"

namespace taxon::exchange {

/// A server: listens to every worker on each bucket's part that it owns, lets a controller decide what counts
/// and who may go on, updates, answers. It runs beside whatever else its rank does. A worker that is lost,
/// where the failure monitor says that it is expendable, counts nowhere from then on; what it handed in
/// stays. Executor's thread only.
class ParameterServer {
 public:
  struct Setup {
    const Layout* layout = nullptr;       // outlives the server
    comm::Communicator* group = nullptr;  // outlives it
    std::vector<Range> ranges;            // by bucket: what the group exchanges of it; empty: all
    Roles roles;
    Consistency numbers;
    std::unique_ptr<ServerState> owner;
    const tensor::Arena* weights = nullptr;  // its memory starts as these; also says type and world
    /// Makes what corrects late contributions, for so many owned elements; empty: they count as others.
    std::function<std::unique_ptr<optim::StalenessRule>(std::size_t owned)> late;
    EventLog log;
    comm::FailureMonitor* failures = nullptr;  // outlives it; null: every worker's loss ends the run
    std::unique_ptr<ServerCoders> coders;      // null: everything travels as it is
  };
  explicit ParameterServer(comm::Runtime& runtime, Setup setup);

  /// Fills its memory from the weights.
  task::Task<void> open();
  /// Begins to listen, after so many updates and samples.
  void serve(std::int64_t version, std::int64_t samples);
  /// Returns when no update is underway. REQUIRES: workers hand in nothing meanwhile.
  task::Task<void> quiet();
  /// Returns when every worker has closed.
  task::Task<void> closed();
  task::Task<void> abandon(std::exception_ptr why);

  /// The parts that it owns, one for each bucket.
  std::vector<Range> owned() const;
  const ServerState& owner() const { return *setup_.owner; }
  ServerState& owner() { return *setup_.owner; }
  /// What it keeps beside the owner, packed: of owned elements alone.
  std::vector<std::pair<std::string, tensor::Arena*>> state();
  /// How many contributions were so many updates late; of this server's largest part in bucket 0.
  const std::vector<std::int64_t>& staleness() const { return staleness_; }
  std::int64_t dropped() const { return dropped_; }
  /// How a worker's values come and go, for reports.
  std::string path_of(int worker) const;

 private:
  using Buffer = std::unique_ptr<tensor::Arena>;
  struct Contribution {
    Buffer values;
    std::int64_t number = 0;
    std::optional<int> place_of = {};  // worker, if it lies in that one's place
    std::int64_t samples = 1, mean_over = 1;
    std::int64_t round = 0;
  };
  struct Came {  // and waits for its turn, where an order is followed
    ServerWire::Head head{};
    Contribution contribution;
  };
  struct WorkerSlot {  // of one worker
    std::optional<Came> came;
    bool wants_pause = false, closed = false;
    std::unique_ptr<task::Event> paused;
    bool waits = false;
    bool applied = false;
    Buffer answer;
    Buffer last;  // answer, where it is not the owner's values: for a contribution that comes again
    ServerWire::Head head{};
    std::unique_ptr<task::Event> may_go;
    Range place_range;      // in places_
    Buffer place;           // there, while no contribution is in it
    RemoteWindow wanted;    // where the worker wants its answer
    bool in_place = false;  // the answer is there
  };
  struct Unit {
    const Bucket* bucket = nullptr;
    Range range;
    std::size_t state = 0;  // where it begins in what is kept of owned elements alone
    ConsistencyController controller;
    std::vector<WorkerSlot> slots;
    std::map<std::size_t, Contribution> pool;  // by the controller's place
    std::size_t arrivals = 0;
    std::vector<std::uint32_t> uses;  // [worker]
    std::int64_t samples = 0;
    std::vector<Buffer> free;
    std::optional<std::size_t> contribution_wire, answer_wire;  // bytes; none: it travels as it is
    std::vector<Buffer> free_answers;                           // coded ones
    const codec::Codec* asks = nullptr;  // contributions stay wires, whose sum asks for more
    std::vector<Buffer> free_wires;      // of contributions
    SelectedEntries chosen;              // by the last update
    bool settling = false, again = false;
    std::unique_ptr<task::Event> idle;   // somebody waits for the end of settling
    std::optional<ReplayCursor> replay;  // to follow
    bool direct() const { return !contribution_wire && !answer_wire; }
  };

  task::Task<void> serve(Unit* unit, int worker);
  task::Task<void> handle_request(Unit* unit, int worker);
  task::Task<void> receive(Unit* unit, int worker, ServerWire::Head* head, const tensor::Arena* values);
  /// Throws Error{Mismatch} for a head that no worker of this run may send.
  void check(const Unit& unit, int worker, const ServerWire::Head& head) const;
  task::Task<void> reply(Unit* unit, int worker, std::uint32_t context);
  bool places(const Unit& unit, int worker) const {
    return unit.direct() && shares_[static_cast<std::size_t>(worker)];
  }
  void prepare_places();
  task::Task<void> receive_told(Unit* unit, int worker, ServerWire::Head* head, Contribution* into);
  task::Task<void> reply_told(Unit* unit, int worker, std::uint32_t context);
  View place_of_answer(const WorkerSlot& slot);
  task::Task<void> lose(Unit* unit, int worker);
  AsyncEvent::Kind take_in(Unit* unit, int worker, Came came);
  task::Task<void> pause(Unit* unit, int worker, std::int64_t number);
  void make_pause(Unit* unit, int worker, std::int64_t number);
  task::Task<void> give(Unit* unit, int worker);
  task::Task<void> handle_control(int worker);
  task::Task<void> handle_control_while_here(int worker);
  template <class Op>
  task::Task<void> settled(Op* first, Op* second);
  task::Task<void> settle(Unit* unit);
  task::Task<void> follow(Unit* unit);
  bool can_follow(const Unit& unit) const;
  std::string describe(const Unit& unit) const;
  task::Task<void> release(Unit* unit);
  task::Task<void> apply(Unit* unit);
  void outdate(Unit* unit, const ConsistencyController::Pooled& late);
  void drop(Unit* unit, int worker);
  task::Task<void> add_up(Unit* unit, std::vector<Contribution>* taken,
                          const std::vector<optim::Lateness>* lateness);
  void correct(const Unit& unit, Contribution& contribution, const optim::Lateness& lateness, Range piece);
  task::Task<void> answer(Unit* unit, int worker, const tensor::Arena* values, std::size_t begin);
  void prepare_codecs();
  task::Task<void> decode(Unit* unit, int worker, std::int64_t round, const tensor::Arena* wire,
                          const tensor::Arena* values);
  task::Task<void> answer_difference(Unit* unit, int worker);
  void keep(Unit* unit, Buffer answer);
  /// The values of a pool whose contributions are wires of a codec that asks.
  task::Task<void> inquire(Unit* unit, const std::vector<ConsistencyController::Pooled>* update,
                           const std::vector<Contribution>* taken, const tensor::Arena* values);
  task::Task<void> add_wires(Unit* unit, DType type, const std::vector<View>* wires);
  task::Task<void> ask(Unit* unit, int worker, View question, View response);
  task::Task<void> answer_chosen(Unit* unit, int worker);
  Buffer take_answer(Unit* unit);
  task::Task<void> run(const char* name, tensor::Kernel kernel, const Unit* unit);
  Buffer take(Unit& unit);
  Buffer take_contribution(Unit& unit);
  void give_back(Unit& unit, Contribution contribution);
  void note(AsyncEvent::Kind kind, const Unit& unit, int worker, std::int64_t number);

  comm::Runtime& runtime_;
  Setup setup_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::unique_ptr<optim::StalenessRule> late_;  // null: late contributions count as others
  std::vector<tensor::Arena> given_;  // [worker]: what it has, of owned elements, where answers are coded
  std::vector<std::int64_t> staleness_;
  std::int64_t dropped_ = 0;
  tensor::Arena places_;                // of contributions; empty: they all come as messages
  std::vector<char> shares_;            // [worker]: its memory
  std::vector<std::uint64_t> written_;  // [worker]: answers put into its places
  std::vector<std::uint64_t> came_;     // [worker]: contributions that it put into places, as it said
  std::uint32_t signal_ = 0;            // [worker], from here on: contributions that it put into place
  task::Scope listeners_;
};

}  // namespace taxon::exchange
