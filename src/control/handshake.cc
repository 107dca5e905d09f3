#include "control/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace taxon::control {
namespace {

constexpr std::string_view kMagic = "TAXONCTL";

/// Fields at fixed places, little-endian.
template <std::size_t N>
class Packer {
 public:
  void text(std::string_view value) {
    for (char c : value) out_[at_++] = static_cast<std::byte>(c);
  }
  void u32(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8)
      out_[at_++] = static_cast<std::byte>((value >> shift) & 0xffU);
  }
  void bytes(std::span<const std::byte> value) {
    std::copy(value.begin(), value.end(), out_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ += value.size();
  }
  const std::array<std::byte, N>& done() const { return out_; }

 private:
  std::array<std::byte, N> out_{};
  std::size_t at_ = 0;
};

std::uint32_t u32_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

std::array<std::byte, 32> word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::array<std::byte, 32> word{};
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), word.size(), word.begin());
  return word;
}

bool has_magic(std::span<const std::byte> bytes) {
  return std::equal(kMagic.begin(), kMagic.end(), bytes.begin(),
                    [](char c, std::byte b) { return static_cast<std::byte>(c) == b; });
}

std::uint32_t flags(HasSecret has_secret) { return has_secret == HasSecret::Yes ? 1U : 0U; }
HasSecret secret_flag(std::uint32_t flags) { return (flags & 1U) != 0 ? HasSecret::Yes : HasSecret::No; }

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1)
    throw Error(ErrorKind::Internal, "the system gives no random bytes (OpenSSL RAND_bytes)");
  return nonce;
}

std::array<std::byte, kChallengeBytes> encode(const Challenge& challenge) {
  Packer<kChallengeBytes> out;
  out.text(kMagic);
  out.u32(challenge.protocol);
  out.u32(flags(challenge.has_secret));
  out.bytes(challenge.nonce);
  return out.done();
}

std::array<std::byte, kAnswerBytes> encode(const Answer& answer) {
  Packer<kAnswerBytes> out;
  out.text(kMagic);
  out.u32(answer.protocol);
  out.u32(flags(answer.has_secret));
  out.bytes(answer.nonce);
  out.bytes(answer.proof);
  return out.done();
}

std::array<std::byte, kVerdictBytes> encode(const Verdict& verdict) {
  Packer<kVerdictBytes> out;
  out.u32(static_cast<std::uint32_t>(verdict.code));
  out.u32(0);
  out.bytes(verdict.proof);
  return out.done();
}

std::optional<Challenge> decode_challenge(std::span<const std::byte, kChallengeBytes> bytes) {
  if (!has_magic(bytes)) return {};
  return Challenge{u32_at(bytes, 8), secret_flag(u32_at(bytes, 12)), word_at(bytes, 16)};
}

std::optional<Answer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes) {
  if (!has_magic(bytes)) return {};
  return Answer{u32_at(bytes, 8), secret_flag(u32_at(bytes, 12)), word_at(bytes, 16), word_at(bytes, 48)};
}

std::optional<Verdict> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes) {
  std::uint32_t code = u32_at(bytes, 0);
  if (code < 1 || code > 3) return {};
  return Verdict{static_cast<Verdict::Code>(code), word_at(bytes, 8)};
}

Proof prove(const Secret& secret, Role role, const Nonce& hub, const Nonce& caller) {
  Packer<72> text;
  text.text(role == Role::Hub ? "hub-" : "call");
  text.u32(kProtocol);
  text.bytes(hub);
  text.bytes(caller);
  // OpenSSL reads a null key as "the key of the last call": an absent secret needs a real address.
  static constexpr unsigned char kNoSecret[1] = {};
  auto key = secret.bytes();
  Proof proof;
  unsigned int size = 0;
  auto message = text.done();
  HMAC(EVP_sha256(), key.empty() ? kNoSecret : key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(),
       reinterpret_cast<unsigned char*>(proof.data()), &size);
  if (size != proof.size()) throw Error(ErrorKind::Internal, "OpenSSL cannot compute HMAC-SHA256");
  return proof;
}

bool same(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace taxon::control
