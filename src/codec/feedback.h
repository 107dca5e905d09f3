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
class Feedback {
 public:
  struct Options {
    float momentum = 0;
    bool masking = true;
  };
  /// `codec` outlives it.
  Feedback(const Codec& codec, Options options) : codec_(codec), options_(options) {}

  /// The wire of round 0 := gradient and memory, which keeps what the codec settles when it encodes.
  void encode(std::span<float> gradient, Memory memory, View wire, const Use& use) const;
  /// After the last round, with its sum: what the codec settles only then.
  void delivered(ConstView wire, Memory memory, const Use& use) const;

 private:
  bool masks(Memory memory) const { return options_.masking && !memory.velocity.empty(); }
  const Codec& codec_;
  const Options options_;
};

}  // namespace taxon::codec
