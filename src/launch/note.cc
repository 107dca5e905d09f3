#include "launch/note.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace taxon::launch {
namespace {

// The first byte says that the job has begun, what comes after it who died.
constexpr off_t kText = 1;
constexpr std::size_t kLongest = 1000;

}  // namespace

control::Fd Note::make() { return control::Fd(memfd_create("taxon-launch-note", MFD_CLOEXEC)); }

std::optional<Note> Note::of(const Environment& environment) {
  auto found = environment.find(kVariable);
  if (found == environment.end()) return {};
  const std::string& text = found->second;
  int fd = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size() || fd < 0) return {};
  return Note(fd);
}

void Note::tell(const std::string& who_died) const {
  if (!told().empty()) return;
  [[maybe_unused]] auto written = pwrite(fd_, who_died.data(), std::min(who_died.size(), kLongest), kText);
}

std::string Note::told() const {
  std::array<char, kLongest> text;
  const ssize_t size = pread(fd_, text.data(), text.size(), kText);
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string();
}

void Note::begin() const { [[maybe_unused]] auto written = pwrite(fd_, "1", 1, 0); }

bool Note::has_begun() const {
  char byte = 0;
  return pread(fd_, &byte, 1, 0) == 1 && byte == '1';
}

}  // namespace taxon::launch
