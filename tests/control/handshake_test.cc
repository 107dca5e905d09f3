#include "control/handshake.h"

#include <gtest/gtest.h>

#include "control/secret.h"

namespace taxon::control {
namespace {

Nonce nonce_of(unsigned char byte) {
  Nonce nonce;
  nonce.fill(std::byte(byte));
  return nonce;
}

TEST(Handshake, PacketsSurviveTheWire) {
  Challenge challenge{.has_secret = HasSecret::Yes, .nonce = nonce_of(3)};
  auto back = decode_challenge(encode(challenge));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->nonce, challenge.nonce);
  EXPECT_EQ(back->has_secret, HasSecret::Yes);
  EXPECT_EQ(back->protocol, kProtocol);
  Answer answer{.nonce = nonce_of(4), .proof = nonce_of(5)};
  auto answered = decode_answer(encode(answer));
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->proof, answer.proof);
  EXPECT_EQ(answered->has_secret, HasSecret::No);
  auto verdict = decode_verdict(encode(Verdict{Verdict::Code::WrongSecret, nonce_of(6)}));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, Verdict::Code::WrongSecret);
}

TEST(Handshake, ForeignBytesAreNoPacket) {
  std::array<std::byte, kAnswerBytes> http{};
  std::string request = "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n";
  for (std::size_t i = 0; i < request.size(); ++i) http[i] = static_cast<std::byte>(request[i]);
  EXPECT_FALSE(decode_answer(http));
  EXPECT_FALSE(decode_verdict(std::array<std::byte, kVerdictBytes>{}));
}

TEST(Handshake, AProofDependsOnSecretRoleAndBothNonces) {
  Secret secret = Secret::from_text("one"), other = Secret::from_text("two");
  Proof proof = prove(secret, Role::Caller, nonce_of(1), nonce_of(2));
  EXPECT_TRUE(same(proof, prove(secret, Role::Caller, nonce_of(1), nonce_of(2))));
  EXPECT_FALSE(same(proof, prove(other, Role::Caller, nonce_of(1), nonce_of(2))));
  EXPECT_FALSE(same(proof, prove(Secret(), Role::Caller, nonce_of(1), nonce_of(2))));
  EXPECT_FALSE(same(proof, prove(secret, Role::Hub, nonce_of(1), nonce_of(2))));
  EXPECT_FALSE(same(proof, prove(secret, Role::Caller, nonce_of(2), nonce_of(2))));
  EXPECT_FALSE(same(proof, prove(secret, Role::Caller, nonce_of(1), nonce_of(1))));
}

TEST(Secret, AFilesLastNewlineDoesNotMatter) {
  auto a = Secret::from_text("word"), b = Secret::from_text("word\r\n");
  EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()));
  EXPECT_TRUE(Secret::from_text(" \n").empty());
  EXPECT_EQ(random_secret_text().size(), 64u);
  EXPECT_NE(random_secret_text(), random_secret_text());
}

}  // namespace
}  // namespace taxon::control
