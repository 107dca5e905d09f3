#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "control/secret.h"

namespace taxon::control {

/// The mutual proof of the secret that comes before anything else on a connection. Three packets of fixed
/// size, so that nothing which a stranger sends is ever parsed or allocated for:
///   rank 0 -> caller   Challenge  magic, protocol, flags, nonce
///   caller -> rank 0   Answer     magic, protocol, flags, nonce, proof that the caller knows the secret
///   rank 0 -> caller   Verdict    code, proof that rank 0 knows it too
/// A proof is HMAC-SHA256 (RFC 2104) over the role, the protocol and both nonces; the roles differ, so that
/// an answer cannot be reflected.
inline constexpr std::uint32_t kProtocol = 1;
inline constexpr std::size_t kChallengeBytes = 48;
inline constexpr std::size_t kAnswerBytes = 80;
inline constexpr std::size_t kVerdictBytes = 40;

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;
enum class Role : std::uint8_t { Hub, Caller };
enum class HasSecret : std::uint8_t { No, Yes };

Nonce random_nonce();

struct Challenge {
  std::uint32_t protocol = kProtocol;
  HasSecret has_secret = HasSecret::No;
  Nonce nonce{};
};
struct Answer {
  std::uint32_t protocol = kProtocol;
  HasSecret has_secret = HasSecret::No;
  Nonce nonce{};
  Proof proof{};
};
struct Verdict {
  enum class Code : std::uint32_t { Welcome = 1, WrongSecret = 2, OtherProtocol = 3 };
  Code code = Code::Welcome;
  Proof proof{};
};

std::array<std::byte, kChallengeBytes> encode(const Challenge& challenge);
std::array<std::byte, kAnswerBytes> encode(const Answer& answer);
std::array<std::byte, kVerdictBytes> encode(const Verdict& verdict);
/// Nothing: these bytes are not Taxon's.
std::optional<Challenge> decode_challenge(std::span<const std::byte, kChallengeBytes> bytes);
std::optional<Answer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes);
std::optional<Verdict> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes);

/// What `role` must send to show that it knows `secret`.
Proof prove(const Secret& secret, Role role, const Nonce& hub, const Nonce& caller);
/// Compares in constant time.
bool same(const Proof& a, const Proof& b);

}  // namespace taxon::control
