#pragma once

#include <optional>
#include <string>

#include "control/socket.h"
#include "launch/identity.h"

namespace taxon::launch {

/// A few bytes of memory that a launcher shares with the ranks that it starts, for the time in which they
/// have no network yet: the launcher tells them who died, and they tell it that all have joined.
/// Ranks inherit it as an open file, whose number the environment names. A view: the descriptor belongs to
/// whoever made it, or to the process.
class Note {
 public:
  static constexpr const char* kVariable = "TAXON_LAUNCH_NOTE";

  /// Makes one, empty. Invalid if the system refuses; errno says why.
  static control::Fd make();
  /// The one that this process's launcher made, if it did.
  static std::optional<Note> of(const Environment& environment);
  explicit Note(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  /// For who is still joining; the first word stays.
  void tell(const std::string& who_died) const;
  /// What was told, or nothing.
  std::string told() const;
  /// All ranks of the job are there, and the control network knows who dies from now on.
  void begin() const;
  bool has_begun() const;

 private:
  int fd_;
};

}  // namespace taxon::launch
