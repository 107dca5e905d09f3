#include "apps/taxon/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/failure.h"
#include "data/storage.h"

extern char** environ;

namespace taxon::app {
namespace {

std::string read_secret_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty())
    throw Error(ErrorKind::Usage, fmt::format("the secret file {} can't be read or is empty", path));
  return text.str();
}

/// Threads of libraries may still run, and peers may be gone: nothing more to tidy up for them.
[[noreturn]] void end_process(int code) {
  std::cout.flush();
  _exit(code);
}

}  // namespace

Environment process_environment() {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    if (auto equals = text.find('='); equals != std::string::npos)
      all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

void say(const std::string& line) {
  // A line of progress that ranks redraw, or the terminal's ^C, may stand where this one begins.
  static const char* const clear = isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  std::cerr << fmt::format("{}taxon: {}\n", clear, line) << std::flush;
}

void write_file(const std::string& path, const std::string& text) {
  data::FileStorage storage;
  storage.write_atomic(path, as_const_view(std::span(text)));
}

control::Secret find_secret(const plan::Plan& plan, const Environment& environment) {
  if (!plan.control.secret_file.empty())
    return control::Secret::from_text(read_secret_file(plan.control.secret_file));
  if (auto text = environment.find("TAXON_SECRET"); text != environment.end())
    return control::Secret::from_text(text->second);
  if (auto path = environment.find("TAXON_SECRET_FILE"); path != environment.end())
    return control::Secret::from_text(read_secret_file(path->second));
  return {};
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

int run_command(const Environment& environment, const std::function<int()>& command) {
  std::string prefix;
  if (auto rank = environment.find("RANK"); rank != environment.end()) prefix = "rank " + rank->second + ": ";
  std::set_terminate([] { end_uncaught(say); });
  try {
    return command();
  } catch (const std::exception& thrown) {
    const Error error = error_from(thrown);
    say(fmt::format("{}{}: {}", prefix, to_string(error.kind()), error.what()));
    if (auto file = environment.find("TORCHELASTIC_ERROR_FILE"); file != environment.end())
      write_error_file(file->second, to_string(error.kind()), error.what());
    end_process(exit_code(error.kind()));
  }
}

}  // namespace taxon::app
