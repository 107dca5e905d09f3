#pragma once

#include <map>
#include <optional>

#include "exchange/replay/replay_gate.h"
#include "exchange/server/server_codecs.h"

namespace taxon::exchange {

/// A worker's side of a parameter server: what it hands in goes to the owners of its parts, and their answers
/// come back when its consistency lets it go on. The other side is a ParameterServer at every member that
/// serves.
class ServerClient final : public Topology, public Stateful, public Asynchronous {
 public:
  ServerClient(comm::Communicator& group, TopologyContext context);

  Range owned(Range range) const override { return {range.begin, 0}; }
  bool spreads() const override { return true; }
  Stateful* stateful() override { return this; }
  Asynchronous* asynchronous() override { return this; }
  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override;
  task::Task<void> spread(LevelTransfer transfer, const tensor::Arena& values) override;
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }

  void begin_turn() override;
  /// By now every answer of the turn before is there. Contributions of one turn carry one clock, no less than
  /// any server's: else some would count it for late and some would not, and workers that wait at different
  /// servers could wait for each other.
  void weigh(std::int64_t samples, std::int64_t mean_over) override {
    clock_ = turn_ = std::max(turn_, answered_);
    samples_ = samples, mean_over_ = mean_over;
  }
  std::int64_t turn() const override { return turn_; }
  void set_turn(std::int64_t turn) override { clock_ = turn_ = turn - 1, first_version_ = turn; }
  /// REQUIRES: every answer has come.
  task::Task<void> pause() override { return tell(ServerWire::Pause); }
  task::Task<void> close(std::vector<Range> units, const tensor::Arena* values) override;

  void prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) override;
  std::vector<StateArena> state() const override;
  const CodecWork* codec_work() const override;
  std::string paths() const override;

 private:
  using Head = ServerWire::Head;
  struct Line {
    std::vector<std::unique_ptr<ValueChannel>> servers;
    std::vector<Head> answers;            // [server]: that came last
    std::int64_t handed_in = 0;           // contributions
    const tensor::Arena* from = nullptr;  // what was handed in last, where answers may be put
    Range range;                          // of it
  };
  Line& line(const LevelTransfer& transfer);
  task::Task<void> hand_in(LevelTransfer transfer, const tensor::Arena& values, ServerWire::Kind kind);
  /// One server's answer, to `into`, which lies in `values` or is a wire.
  task::Task<void> take_answer(LevelTransfer transfer, const tensor::Arena* values, View into, DType type,
                               int server);
  /// Throws Error{Mismatch} for a head of an answer that no server of this run may send.
  void check(const Line& line, int server, const Head& head) const;
  task::Task<void> tell(ServerWire::Kind kind);
  /// What parts of a unit are on their way.
  enum class Wires { Contribution, Question, Response, Answer };
  /// By server, bytes; none where parts travel as they are.
  std::vector<std::size_t> sizes(Wires kind, Range range) const;
  /// True if servers ask for more than what was handed in of the unit.
  bool asked(Range range) const;
  task::Task<void> encode(LevelTransfer transfer, const tensor::Arena* values, std::vector<View> wires);
  task::Task<void> decode(LevelTransfer transfer, const tensor::Arena* values, std::vector<View> wires);
  /// Codecs that ask: all servers get exact values of what they ask for, and then say what became of it.
  task::Task<void> respond(LevelTransfer transfer, const tensor::Arena* values);
  task::Task<void> respond_to(int server, LevelTransfer transfer, const tensor::Arena* values);
  task::Task<void> take_over(LevelTransfer transfer, const tensor::Arena* values, std::vector<View> wires);
  /// The part of a unit that a server owns, as a reduction of its own.
  CompressedReduce part_reduce(LevelTransfer transfer, const tensor::Arena* values, int server);

  comm::Communicator& group_;
  const Roles roles_;
  const EventLog log_;
  const ServerCoders coders_;
  std::optional<ReplayCursor> replay_;   // of turns, to follow
  std::map<std::uint32_t, Line> lines_;  // by unit
  std::int64_t samples_ = 1, mean_over_ = 1;
  std::int64_t turn_ = -1;
  std::int64_t clock_ = -1;  // the turn that contributions belong to
  std::int64_t first_version_ = 0;
  std::int64_t answered_ = 0;  // the furthest that a server said
  std::vector<ChannelPeer> servers_;
  std::vector<std::unique_ptr<Channel>> controls_;  // [server]
};

}  // namespace taxon::exchange
