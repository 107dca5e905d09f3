#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace taxon::control {

/// What callers print when a job needs a secret and has none.
inline constexpr const char* kHowToGetASecret =
    "give every rank the same secret: TAXON_SECRET=<text>, or TAXON_SECRET_FILE=<file that only you can "
    "read>, "
    "made for example by: (umask 077; head -c 32 /dev/urandom | base64 > ~/.taxon-secret)";

/// The job's secret: whoever knows it may join. Wiped when destroyed, and never printed. Empty: none.
class Secret {
 public:
  Secret() = default;
  /// The bytes of `text` without white space at its end, so that a file's last newline does not matter.
  static Secret from_text(std::string_view text);
  Secret(const Secret&) = default;
  Secret(Secret&&) noexcept = default;
  Secret& operator=(const Secret&) = default;
  Secret& operator=(Secret&&) noexcept = default;
  ~Secret();

  bool empty() const { return bytes_.empty(); }
  std::span<const unsigned char> bytes() const { return bytes_; }

 private:
  std::vector<unsigned char> bytes_;
};

/// 32 random bytes from the system as hexadecimal text, for a job whose launcher makes the secret.
std::string random_secret_text();

}  // namespace taxon::control
