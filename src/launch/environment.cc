#include "launch/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "launch/launcher_env.h"

extern char** environ;

namespace taxon::launch {
namespace {

control::Secret read_secret_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  control::Secret secret = control::Secret::from_text(text.str());
  if (!file || secret.empty())
    throw Error(ErrorKind::Usage, fmt::format("the secret file {} can't be read or is empty", path));
  return secret;
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
  if (plan.control.address.empty() || !value_of(environment, "MASTER_ADDR").empty()) return environment;
  const auto [host, port] = host_and_port(plan.control.address);
  environment["MASTER_ADDR"] = host;
  if (!port.empty() && value_of(environment, "MASTER_PORT").empty()) environment["MASTER_PORT"] = port;
  return environment;
}

std::pair<std::string, std::string> host_and_port(const std::string& address) {
  const std::size_t bracket = address.rfind(']');  // only an IPv6 address in brackets has a port behind it
  const bool is_bare = bracket == std::string::npos && std::count(address.begin(), address.end(), ':') > 1;
  const std::size_t colon = is_bare ? std::string::npos : address.find(':', bracket + 1);
  std::string host = address.substr(0, colon);
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  return {host, colon == std::string::npos ? "" : address.substr(colon + 1)};
}

control::Secret find_secret(const plan::Plan& plan, const Environment& environment) {
  if (!plan.control.secret_file.empty()) return read_secret_file(plan.control.secret_file);
  if (const std::string text = value_of(environment, "TAXON_SECRET"); !text.empty())
    return control::Secret::from_text(text);
  if (const std::string path = value_of(environment, "TAXON_SECRET_FILE"); !path.empty())
    return read_secret_file(path);
  return {};
}

}  // namespace taxon::launch
