#include "launch/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"

extern char** environ;

namespace taxon::launch {
namespace {

std::string read_secret_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty())
    throw Error(ErrorKind::Usage, fmt::format("the secret file {} can't be read or is empty", path));
  return text.str();
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

Environment with_address(const plan::Plan& plan, Environment environment) {
  const std::string& address = plan.control.address;
  if (address.empty() || environment.contains("MASTER_ADDR")) return environment;
  const std::size_t bracket = address.rfind(']');  // only an IPv6 address in brackets has a port behind it
  const bool is_bare = bracket == std::string::npos && std::count(address.begin(), address.end(), ':') > 1;
  const std::size_t colon = is_bare ? std::string::npos : address.find(':', bracket + 1);
  std::string host = address.substr(0, colon);
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  environment["MASTER_ADDR"] = host;
  if (colon != std::string::npos) environment.emplace("MASTER_PORT", address.substr(colon + 1));
  return environment;
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

}  // namespace taxon::launch
