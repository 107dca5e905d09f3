#include "net/tcp/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace taxon::net::tcp {
namespace {

constexpr std::string_view kMagic = "TAXONTCP";

/// Fields at fixed places. The wire is little-endian, as all hosts are (net/wire/wire.h).
template <std::size_t N>
class Packer {
 public:
  Packer& text(std::string_view value) { return bytes(std::as_bytes(std::span(value))); }
  template <class T>
  Packer& value(T value) {
    return bytes(std::as_bytes(std::span(&value, 1)));
  }
  Packer& bytes(std::span<const std::byte> value) {
    std::copy(value.begin(), value.end(), out_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ += value.size();
    return *this;
  }
  std::array<std::byte, N> done() const { return out_; }

 private:
  std::array<std::byte, N> out_{};
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool magic() {
    const bool found = std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) == 0;
    bytes_ = bytes_.subspan(kMagic.size());
    return found;
  }
  template <class T>
  void value(T& out) {
    std::memcpy(&out, bytes_.data(), sizeof out);
    bytes_ = bytes_.subspan(sizeof out);
  }

 private:
  std::span<const std::byte> bytes_;
};

Word hmac(std::span<const unsigned char> key, std::span<const std::byte> text) {
  // OpenSSL reads a null key as "the key of the last call": an absent one needs a real address.
  static constexpr unsigned char kNone[1] = {};
  Word result;
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.empty() ? kNone : key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(result.data()), &size);
  if (size != result.size()) throw Error(ErrorKind::Internal, "OpenSSL cannot compute HMAC-SHA256");
  return result;
}

std::span<const unsigned char> as_key(const Word& word) {
  return {reinterpret_cast<const unsigned char*>(word.data()), word.size()};
}

constexpr std::size_t kLabel = 8;
/// All that was said, behind a label of what it is for.
auto transcript(std::string_view label, const Challenge& challenge, const Answer& answer) {
  constexpr std::size_t kUnproven = kAnswerBytes - sizeof(Word);
  const auto said = encode(answer);
  return Packer<kLabel + kChallengeBytes + kUnproven>()
      .text(label)
      .bytes(encode(challenge))
      .bytes(std::span(said).first(kUnproven))
      .done();
}

template <class Array>
Array random_bytes() {
  Array bytes;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1)
    throw Error(ErrorKind::Internal, "the system gives no random bytes (OpenSSL RAND_bytes)");
  return bytes;
}

}  // namespace

std::array<std::byte, kChallengeBytes> encode(const Challenge& challenge) {
  return Packer<kChallengeBytes>()
      .text(kMagic)
      .value(challenge.version)
      .value(challenge.encryption)
      .bytes(challenge.nonce)
      .done();
}

std::array<std::byte, kAnswerBytes> encode(const Answer& answer) {
  static_assert(kAnswerBytes == 8 + 2 * 4 + 32 + 4 * 4 + 32);
  return Packer<kAnswerBytes>()
      .text(kMagic)
      .value(answer.version)
      .value(answer.encryption)
      .bytes(answer.nonce)
      .value(answer.source)
      .value(answer.target)
      .value(answer.epoch)
      .value(answer.fragment)
      .bytes(answer.proof)
      .done();
}

std::array<std::byte, kVerdictBytes> encode(const Verdict& verdict) {
  return Packer<kVerdictBytes>().value(verdict.code).value(std::uint32_t{0}).bytes(verdict.proof).done();
}

std::optional<Challenge> decode_challenge(std::span<const std::byte, kChallengeBytes> bytes) {
  Reader in(bytes);
  if (!in.magic()) return {};
  Challenge challenge;
  in.value(challenge.version);
  in.value(challenge.encryption);
  in.value(challenge.nonce);
  return challenge;
}

std::optional<Answer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes) {
  Reader in(bytes);
  if (!in.magic()) return {};
  Answer answer;
  in.value(answer.version);
  in.value(answer.encryption);
  in.value(answer.nonce);
  in.value(answer.source);
  in.value(answer.target);
  in.value(answer.epoch);
  in.value(answer.fragment);
  in.value(answer.proof);
  return answer;
}

std::optional<Verdict> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes) {
  Reader in(bytes);
  std::uint32_t code = 0, zero = 0;
  in.value(code);
  in.value(zero);
  if (code < 1 || code > 4) return {};
  Verdict verdict{static_cast<Verdict::Code>(code), {}};
  in.value(verdict.proof);
  return verdict;
}

Key::Key(std::span<const unsigned char> secret, const Token& token)
    : key_(hmac(secret, Packer<kLabel + sizeof(Token)>().text("data-key").bytes(token).done())) {}

Word Key::prove(Role role, const Challenge& challenge, const Answer& answer) const {
  return hmac(as_key(key_), transcript(role == Role::Listener ? "listener" : "a caller", challenge, answer));
}

Word Key::tls(const Challenge& challenge, const Answer& answer) const {
  return hmac(as_key(key_), transcript("tls  psk", challenge, answer));
}

bool same(const Word& a, const Word& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }
Word random_word() { return random_bytes<Word>(); }
Token random_token() { return random_bytes<Token>(); }

}  // namespace taxon::net::tcp
