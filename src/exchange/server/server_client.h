#pragma once

#include <array>
#include <map>

#include "exchange/compression/coder.h"
#include "exchange/levels/topology.h"
#include "exchange/replay/replay_gate.h"
#include "exchange/server/rma_window.h"

namespace taxon::exchange {

/// Which members of a group work and which serve: with dedicated servers these are the last ones, otherwise
/// every member does both. Server s owns part s of every bucket.
struct Roles {
  int size = 1;
  int dedicated = 0;
  int workers() const { return size - dedicated; }
  int servers() const { return dedicated > 0 ? dedicated : size; }
  int member_of_server(int server) const { return dedicated > 0 ? workers() + server : server; }
  bool works(int member) const { return member < workers(); }
  bool serves(int member) const { return dedicated == 0 || member >= workers(); }
  Range part_of(Range range, int server) const {
    return part(range, static_cast<std::size_t>(servers()), static_cast<std::size_t>(server));
  }
};

/// What a worker says ahead of a contribution, and a server ahead of its answer.
struct ServerWire {
  enum Message : std::uint32_t {
    HandedInHead,
    HandedIn,
    AnswerHead,
    Answer,
    Control,
    ControlDone,
    Question,  // of codecs that ask
    Response
  };
  enum Kind : std::int64_t { Contribution, Pause, Close };
  using Head = std::array<std::int64_t, 8>;
  // Of HandedInHead and Control.
  enum Field { KindOf, Clock, Base, Samples, MeanOver, Number, Round, Written };
  // Of AnswerHead.
  enum AnswerField { CommonClock, Version, AnswerWritten };
  /// A head between ranks that share memory. Written: the values are the so-many-th that this rank wrote into
  /// places of the other; 0: a message follows. `place`: where the other may write next.
  struct Told {
    Head head{};
    WindowDescriptor place;
  };
  /// Of the unit's `use`-th exchange between a worker and a server.
  static net::Tag tag(const comm::Communicator& group, std::uint32_t unit, std::uint32_t context,
                      Message message);
};
/// The unit of Control messages: none of a bucket.
inline constexpr std::uint32_t kServerControlUnit = 0x40000010;

/// Codecs between workers and servers: of contributions, whose memory is the worker's, and of answers, which
/// say how far the owner's values went from those that this worker has. Null: they travel as they are.
struct ServerCoders {
  std::unique_ptr<Coder> contributions, answers;
  explicit ServerCoders(const TopologyContext& context);
  /// True if servers ask, and so answer with the entries that counted.
  bool query() const { return contributions && contributions->codec().coordinate_query(); }
  /// Where chance is drawn for an answer, which belongs to no step.
  static std::int64_t round_of_answer(std::int64_t version) { return -1 - version; }
};

/// A worker's side of a parameter server: what it hands in goes to the owners of its parts, and their answers
/// come back when its consistency lets it go on. The other side is a ParameterServer at every member that
/// serves.
class ServerClient final : public Topology {
 public:
  ServerClient(comm::Communicator& group, TopologyContext context);

  Range owned(Range range) const override { return {range.begin, 0}; }
  bool spreads() const override { return true; }
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
  struct Line {
    std::uint32_t context = 0;
    std::int64_t handed_in = 0;           // contributions
    std::vector<std::int64_t> versions;   // [server]: of the values that came last
    std::vector<RemoteWindow> places;     // [server]: for the next contribution
    std::vector<char> wanted;             // [server]: it was told where the answer may go
    const tensor::Arena* from = nullptr;  // what was handed in last, where answers may be put
    Range range;                          // of it
  };
  Line& line(std::uint32_t unit);
  task::Task<void> tell(ServerWire::Kind kind);
  /// Throws Error{Mismatch} for a head of an answer that no server of this run may send.
  void check(const Line& line, int server, const ServerWire::Head& head) const;
  /// The same of what it says of places, which `line` then knows.
  void believe(LevelTransfer transfer, Line& line, int server, const ServerWire::Told& told);
  task::Task<void> hand_in(LevelTransfer transfer, const tensor::Arena& values, ServerWire::Kind kind);
  /// What parts of a unit are on their way.
  enum class Wires { Contribution, Question, Response, Answer };
  /// By server, bytes; none where parts travel as they are.
  std::vector<std::size_t> sizes(Wires kind, Range range) const;
  static std::size_t room_for(const std::vector<std::size_t>& sizes);
  static std::vector<View> wires_in(View room, const std::vector<std::size_t>& sizes);
  /// True if servers ask for more than what was handed in of the unit.
  bool asked(Range range) const;
  /// True if a part's values may be written into place: memory is shared, and they travel as they are.
  bool places(Range range, int server) const;
  task::Task<void> take_placed(LevelTransfer transfer, const tensor::Arena* values,
                               std::vector<ServerWire::Told>* told);
  task::Task<void> copy(LevelTransfer transfer, const tensor::Arena* values, Range from, Range to);
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
  std::uint32_t told_ = 0;
  std::vector<char> shares_;            // [server]: its memory
  std::vector<std::uint64_t> written_;  // [server]: contributions put into its places
  std::vector<std::uint64_t> came_;     // [server]: answers that it put into places, as it said
  std::uint32_t signal_ = 0;            // [server], from here on: answers that it put into place
};

}  // namespace taxon::exchange
