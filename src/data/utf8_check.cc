#include "data/utf8_check.h"

namespace taxon::data {

std::vector<Utf8Check::Fault> Utf8Check::take(std::span<const std::byte> piece) {
  std::vector<Fault> faults;
  for (std::byte raw : piece) {
    const auto c = std::to_integer<unsigned>(raw);
    bool is_start = missing_ == 0;
    if (missing_ > 0 && c >= low_ && c <= high_) {
      --missing_;
      low_ = 0x80, high_ = 0xbf;
    } else if (missing_ > 0) {
      faults.push_back({byte_, line_, "is not UTF-8: a character is not finished"});
      missing_ = 0;
      is_start = true;
    }
    if (is_start) {
      low_ = 0x80, high_ = 0xbf;
      if (c == 0) {
        faults.push_back({byte_, line_, "is a zero byte, which is no text"});
      } else if (c >= 0xc2 && c <= 0xdf) {
        missing_ = 1;
      } else if (c >= 0xe0 && c <= 0xef) {
        missing_ = 2;
        if (c == 0xe0) low_ = 0xa0;   // shorter forms
        if (c == 0xed) high_ = 0x9f;  // halves of UTF-16
      } else if (c >= 0xf0 && c <= 0xf4) {
        missing_ = 3;
        if (c == 0xf0) low_ = 0x90;
        if (c == 0xf4) high_ = 0x8f;  // beyond the last character
      } else if (c >= 0x80) {
        faults.push_back({byte_, line_, "is not UTF-8: no character begins like this"});
      }
    }
    if (c == '\n') ++line_;
    ++byte_;
  }
  return faults;
}

std::optional<Utf8Check::Fault> Utf8Check::end() const {
  if (missing_ == 0) return {};
  return Fault{byte_ - 1, line_, "is not UTF-8: a character is not finished"};
}

}  // namespace taxon::data
