#include "control/secret.h"

#include <openssl/crypto.h>

#include "control/handshake.h"

namespace taxon::control {

Secret Secret::from_text(std::string_view text) {
  auto end = text.find_last_not_of(" \t\r\n");
  text = end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
  Secret secret;
  secret.bytes_.assign(text.begin(), text.end());
  return secret;
}

Secret::~Secret() {
  if (!bytes_.empty()) OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

std::string random_secret_text() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte b : random_nonce()) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15U];
  }
  return text;
}

}  // namespace taxon::control
