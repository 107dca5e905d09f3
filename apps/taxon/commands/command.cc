#include "apps/taxon/commands/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "base/failure.h"
#include "launch/error_file.h"

namespace taxon::app {
namespace {

/// Threads of libraries may still run, and peers may be gone: nothing more to tidy up for them.
[[noreturn]] void end_process(int code) {
  std::cout.flush();
  _exit(code);
}

}  // namespace

void say(const std::string& line) {
  // A line of progress that ranks redraw, or the terminal's ^C, may stand where this one begins.
  static const char* const clear = isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  std::cerr << fmt::format("{}taxon: {}\n", clear, line) << std::flush;
}

void write_file(const std::string& path, const std::string& text) {
  data::FileStorage storage;
  storage.write_atomic(path, as_const_view(std::span(text)));
}

void require_writable(data::Storage& storage, const std::string& file) {
  const std::string probe = file + ".probe";
  std::byte byte{0};
  storage.write_atomic(probe, ConstView(&byte, 1));
  storage.remove(probe);
}

int run_alone(const std::function<int()>& command) {
  std::set_terminate([] { end_uncaught(say); });
  try {
    return command();
  } catch (const std::exception& other) {
    const Error error = error_from(other);
    say(fmt::format("{}: {}", to_string(error.kind()), error.what()));
    return exit_code(error.kind());
  }
}

int run_command(const launch::Environment& environment, const std::function<int()>& command) {
  std::string prefix;
  if (auto rank = environment.find("RANK"); rank != environment.end()) prefix = "rank " + rank->second + ": ";
  std::set_terminate([] { end_uncaught(say); });
  try {
    return command();
  } catch (const std::exception& thrown) {
    const Error error = error_from(thrown);
    say(fmt::format("{}{}: {}", prefix, to_string(error.kind()), error.what()));
    if (auto file = environment.find("TORCHELASTIC_ERROR_FILE"); file != environment.end())
      launch::write_error_file(file->second, to_string(error.kind()), error.what());
    end_process(exit_code(error.kind()));
  }
}

}  // namespace taxon::app
