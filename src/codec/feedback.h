#pragma once

#include "codec/codec.h"

namespace taxon::codec {

/// What one member keeps of one range between steps: what did not travel, and with momentum correction the
/// velocity. State of the training: checkpoints hold it.
struct Memory {
  std::span<float> errors;    // empty for codecs that vote
  std::span<float> velocity;  // empty without momentum correction
};

/// Error feedback around a codec (Seide et al., "1-bit stochastic gradient descent", Interspeech 2014; Stich,
/// Cordonnier and Jaggi 2018), with momentum correction and masking (Lin et al., "Deep gradient compression",
/// ICLR 2018). Nothing is lost: what travelled and what is kept are what came in, also when gradients are not
/// finite, which change no memory.
///
/// Of kind Difference (EF21: Richtárik, Sokolov and Fatkhullin, NeurIPS 2021): the memory's errors are an
/// estimate of the gradient, which all members' sums are the same to everybody; what travels is how far the
/// gradient is from it. For codecs that settle when encoded.
class Feedback {
 public:
  enum class Kind { Memory, Difference };
  struct Options {
    Kind kind = Kind::Memory;
    float decay = 1;  // of the errors, from step to step; below 1 what is lost is the errors' share alone
    float momentum = 0;
    bool masking = true;
  };
  /// `codec` outlives it.
  Feedback(const Codec& codec, Options options) : codec_(codec), options_(options) {}

  /// The wire of round 0 := gradient and memory, which keeps what the codec settles when it encodes.
  void encode(std::span<float> gradient, Memory memory, View wire, const CodecContext& context) const;
  /// Of values that travel as they are: `gradient` := the velocity, without masking, since it would be
  /// cleared in every step. Nothing without momentum correction.
  void pass(std::span<float> gradient, Memory memory, const CodecContext& context) const;
  /// What an encoding of a sum lost belongs to this member: `rest` goes into its errors.
  void take_back(std::span<const float> rest, std::span<float> errors) const;
  /// Kind Difference, when all is decoded: `sum`, of what travelled, and `estimate`, of before, := the sum of
  /// all members' estimates. Where `sum` is not finite all begin anew.
  void conclude(std::span<float> sum, std::span<float> estimate, std::span<float> errors) const;
  bool estimates() const { return options_.kind == Kind::Difference; }
  /// The wire of a later round that answers a question := what the memory has of it, which leaves it.
  /// `context` has the question.
  void answer(Memory memory, View wire, const CodecContext& context) const;
  /// After the last round, with its sum: what the codec settles only then.
  void delivered(ConstView wire, Memory memory, const CodecContext& context) const;
  /// The same for a member that is told which entries counted.
  void delivered(std::span<const std::uint32_t> places, Memory memory) const;

 private:
  void encode_difference(std::span<const float> gradient, std::span<float> errors, View wire,
                         const CodecContext& context) const;
  bool masks(Memory memory) const { return options_.masking && !memory.velocity.empty(); }
  const Codec& codec_;
  const Options options_;
};

}  // namespace taxon::codec
