#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/named.h"

namespace taxon::net::tcp {

/// What comes before the first frame of a connection (docs/wire_format.md): three packets of fixed size, so
/// that nothing which a stranger sends is ever parsed or allocated for.
///   listener -> caller  Challenge  magic, version, flags, nonce
///   caller -> listener  Answer     magic, version, flags, nonce, who calls whom, proof of the key
///   listener -> caller  Verdict    code, proof of the key
/// A proof is HMAC-SHA256 (RFC 2104) over the role and everything that both have said; the roles differ, so
/// that an answer can't be reflected.
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kChallengeBytes = 48;
inline constexpr std::size_t kAnswerBytes = 96;
inline constexpr std::size_t kVerdictBytes = 40;

using Word = std::array<std::byte, 32>;
/// Names a listener and, with the job's secret, makes its key.
using Token = std::array<std::byte, 16>;

enum class Encryption : std::uint32_t { None = 0, Tls = 1 };

struct Challenge {
  std::uint32_t version = kVersion;
  Encryption encryption = Encryption::None;
  Word nonce{};
};
struct Answer {
  std::uint32_t version = kVersion;
  Encryption encryption = Encryption::None;
  Word nonce{};
  std::int32_t source = 0;
  std::int32_t target = 0;
  std::uint32_t epoch = 0;
  std::uint32_t fragment = 0;  // largest payload of a frame on this connection
  Word proof{};
};
struct Verdict {
  enum class Code : std::uint32_t { Welcome = 1, WrongKey = 2, OtherSettings = 4 };
  Code code = Code::Welcome;
  Word proof{};
};

std::array<std::byte, kChallengeBytes> encode(const Challenge& challenge);
std::array<std::byte, kAnswerBytes> encode(const Answer& answer);
std::array<std::byte, kVerdictBytes> encode(const Verdict& verdict);
/// Nothing: these bytes are not Taxon's.
std::optional<Challenge> decode_challenge(std::span<const std::byte, kChallengeBytes> bytes);
std::optional<Answer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes);
std::optional<Verdict> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes);

/// What a listener and those who may call it have in common.
class Key {
 public:
  /// Of the listener that `token` names, in the job with this secret. Without a secret the token alone, which
  /// the rendezvous hands to the job's ranks, makes the key.
  Key(std::span<const unsigned char> secret, const Token& token);
  enum class Role { Listener, Caller };
  /// What `role` must send to show that it knows the key.
  Word prove(Role role, const Challenge& challenge, const Answer& answer) const;
  /// The pre-shared key of this connection's TLS.
  Word tls(const Challenge& challenge, const Answer& answer) const;

 private:
  Word key_{};
};

/// Compares in constant time.
bool same(const Word& a, const Word& b);
Word random_word();
Token random_token();

}  // namespace taxon::net::tcp
