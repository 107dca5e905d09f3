#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/isa.h"
#include "base/view.h"
#include "plan/catalogue.h"

namespace taxon::codec {

/// How wires of several members become one, which decides how they travel.
enum class Algebra {
  Linear,     // element by element, as floats: any all-reduce will do
  Divisible,  // a part's wire stands alone: its owner decodes all members', sums and encodes the sum again
  Mergeable,  // two become one of the same size, and what that has no room for goes back to the merger
  Opaque,     // not at all: everybody gets every wire, decodes and adds
  Asked,      // a part's owner adds up the first round's wires and asks; the second round is divisible
};

/// One exchange between members. Codecs whose second message depends on the first's sum have two.
struct Round {
  Algebra algebra;
  DType type = DType::UInt8;  // of the elements of a linear wire
};

/// When what a wire took may leave the memory of errors: at once, when a question is answered, or when all
/// rounds are over.
enum class ResidualTiming { Encoded, Answered, Delivered };

/// What one element costs, in and out of a wire.
struct ElementCost {
  double encode_flops = 0, encode_bytes = 0;
  double decode_flops = 0, decode_bytes = 0;
};

/// A tensor, or a part of one, in a range. What lies between pieces is zero.
struct Piece {
  Range range;
  std::size_t columns = 0;  // of its matrix: values of a row; 0: it is a vector
};

/// How many values a range has, and the tensors in it, ascending; without any it is one vector.
struct Extent {
  Extent(std::size_t count, std::span<const Piece> pieces = {}) : count(count), pieces(pieces) {}
  std::size_t count;
  std::span<const Piece> pieces;
};

/// What an exchange of a range gives its codec beside the values.
struct CodecContext {
  View scratch;              // of Codec::scratch() bytes, aligned to 64; kept from encode() to decode()
  std::uint64_t shared = 0;  // key of chance, the same at every member; another in every step
  std::uint64_t own = 0;     // and one that is this member's alone
  Isa isa = best_isa();
  std::span<const Piece> pieces = {};  // of the range; none for a part of one, which divisible codecs encode
  std::span<float> lasting = {};       // where lasts(): as many as the values, kept from step to step
};

enum class Residual { Stay, Keep };  // of encoded values: as they are, or only what the wire lacks
enum class Into { Assign, Add };     // what decoded values do to those that are there

/// Codecs of two rounds whose sums one member alone may have (Sketched-SGD's server): what it then asks of
/// the others between the rounds, and what it says at the end. A count is that of the values.
class CoordinateQuery {
 public:
  virtual ~CoordinateQuery() = default;
  /// Bytes of a question, exactly.
  virtual std::size_t question_bytes(std::size_t count) const = 0;
  /// After absorb(), by whoever has the first round's sum.
  virtual void ask(View question, std::size_t count, const CodecContext& context) const = 0;
  /// At the others, in place of absorb(): encode() of the second round answers. Throws Error{Transport} for
  /// what is not an unchanged question about as many values.
  virtual void receive(ConstView question, std::size_t count, const CodecContext& context) const = 0;
  /// How many entries count in the end.
  virtual std::size_t entries(std::size_t count) const = 0;
  /// Their places, ascending, once the second round's sum is there. False: it is not finite.
  virtual bool find(ConstView sum, std::span<std::uint32_t> places, std::size_t count,
                    const CodecContext& context) const = 0;
};

/// Codecs of algebra Asked: what owners of parts do between the rounds. A count is that of the part's values.
/// Scratch is kept from begin() to ask(), and from receive() or ask() to what is encoded and decoded next.
class PartQuery {
 public:
  virtual ~PartQuery() = default;
  /// What choosing costs for each value.
  virtual ElementCost cost_of_choosing() const = 0;
  /// Bytes of a question, exactly.
  virtual std::size_t question_bytes(std::size_t count) const = 0;
  /// The owner's sum of the first round's wires: nothing yet; and one more.
  virtual void begin(std::size_t count, const CodecContext& context) const = 0;
  virtual void add(ConstView wire, std::size_t count, const CodecContext& context) const = 0;
  /// What the owner wants to know, from the sum.
  virtual void ask(View question, std::size_t count, const CodecContext& context) const = 0;
  /// Everywhere: the wires of the second round that are encoded and decoded next are about this question.
  /// Throws Error{Transport} for what is not an unchanged question about as many values.
  virtual void receive(ConstView question, std::size_t count, const CodecContext& context) const = 0;
};

/// Turns ranges of float32 into wires and back. A value without state: everything that lasts is the caller's,
/// so one serves any number of ranges and threads. Never communicates, never allocates. Equal arguments give
/// equal bits on every path.
///
/// What a value that is not finite does: encode() says so, and whatever its wire becomes a part of decodes to
/// NaN throughout, as a sum of such gradients would; no memory of errors changes.
///
/// Wires come from other machines. One that is not an unchanged wire of the same codec and range is refused
/// with Error{Transport}, whatever its bytes are; linear wires are plain numbers and can't be told.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::span<const Round> rounds() const = 0;
  virtual ResidualTiming residual_timing() const { return ResidualTiming::Encoded; }
  virtual ElementCost cost() const = 0;
  /// False: zeros may decode to something else, so whoever decodes must wipe what lies between pieces, in
  /// values and memory.
  virtual bool keeps_zeros() const { return true; }
  /// True: begins where it ended in the step before, in Use::lasting, which is the same at every member and
  /// zero at first. State of the training: checkpoints hold it.
  virtual bool lasts() const { return false; }

  /// More than 1: rounds differ from step to step and repeat after so many; in_turn() is the codec of a step.
  virtual int cycle() const { return 1; }
  virtual const Codec& in_turn(std::int64_t) const { return *this; }

  /// Bytes of a wire, exactly.
  virtual std::size_t wire_bytes(int round, const Extent& extent) const = 0;
  virtual std::size_t scratch_bytes(const Extent& extent) const = 0;

  /// Fills the wire. Residual::Keep only for codecs that settle when encoded, or answered; afterwards values
  /// + what the wire decodes to = the values before, up to one rounding. False: some value was not finite,
  /// and `values` are as they were, with Residual::Keep up to one rounding.
  virtual bool encode(int round, std::span<float> values, View wire, Residual residual,
                      const CodecContext& context) const = 0;
  /// The sum of all members' wires of a round that is not the last.
  virtual void absorb(int, std::span<const float>, ConstView, const CodecContext&) const {}
  /// The sum, one member's wire, or the merged one, of the last round.
  virtual void decode(ConstView wire, std::span<float> values, Into into,
                      const CodecContext& context) const = 0;

  /// Mergeable: `into` := both. What it has no room for is added to `residual`, of as many values as were
  /// encoded, if there are any.
  virtual void merge(View into, ConstView other, std::span<float> residual,
                     const CodecContext& context) const;
  /// Codecs that settle when delivered: `memory`, which was encoded, keeps what `wire`, the last round's sum,
  /// does not carry.
  virtual void settle(ConstView wire, std::span<float> memory, const CodecContext& context) const;
  /// Codecs that send entries: values := 0 where this wire names them.
  virtual void clear(ConstView wire, std::span<float> values, const CodecContext& context) const;
  /// Null: every member must get the sums of all rounds.
  virtual const CoordinateQuery* coordinate_query() const { return nullptr; }
  /// Algebra Asked; otherwise null.
  virtual const PartQuery* part_query() const { return nullptr; }
};

/// A codec, described: whatever else needs to know of it asks its row.
struct CodecRow {
  std::string_view name;
  // For help and docs. d: a range's values; k: those that travel; n: members.
  std::string_view sentence;    // what travels
  std::string_view bytes = {};  // of a wire, but for heads
  std::string_view source = {};
  bool biased = false;         // without a memory of errors training goes wrong
  bool sends_entries = false;  // clear() works, so momentum can be masked
  bool votes = false;  // magnitudes don't count, so there are no errors to keep; momentum is of the values
  /// How far a decoded value may be from what was encoded, if it travelled; `scale` is the largest magnitude
  /// of its 256 neighbours. Null: values that travel are exact, but for chance.
  float (*largest_error)(float value, float scale) = nullptr;
  /// Where chance rounds a value to one of its two neighbours, without bias: how far these are apart. Null:
  /// no chance.
  float (*step)(float value, float scale) = nullptr;
  std::span<const plan::LevelRule> rules = {};                   // what makes no sense with its options
  std::size_t most = std::numeric_limits<std::uint32_t>::max();  // values of a range that its wires can name
  // Filled in by codec_row().
  std::vector<plan::OptionKey> (*options)() = nullptr;
  std::unique_ptr<Codec> (*make)(const plan::Options& options) = nullptr;
};

/// A row whose keys in a codec section are those of the struct O; `make` is a lambda without captures that
/// makes the codec of one.
template <class O, class Make>
CodecRow codec_row(CodecRow row, Make) {
  row.options = plan::option_keys<O>;
  row.make = [](const plan::Options& options) -> std::unique_ptr<Codec> { return Make{}(options.read<O>()); };
  return row;
}

/// codec/table.cc: none, which is no codec, is not among them.
std::span<const CodecRow> codec_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const CodecRow& find_codec(std::string_view name, std::span<const CodecRow> own = {});
/// Of `wanted` the keys that the row has, where it allows what is wanted.
plan::Options options_for(const CodecRow& row, const plan::Options& wanted);
/// True if a member's wire of a part is all that the part's owner needs of it: one round, and neither merged
/// nor a vote.
bool stands_alone(const CodecRow& row);
/// True if an owner can ask for what else it needs.
bool asks(const CodecRow& row);
/// For plan::check_plan().
std::vector<plan::Catalogue::Codec> known_codecs(std::span<const CodecRow> own = {});

}  // namespace taxon::codec
