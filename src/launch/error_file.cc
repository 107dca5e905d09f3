#include "launch/error_file.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace taxon::launch {

void write_error_file(const std::string& path, const std::string& kind, const std::string& message) {
  auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  nlohmann::json extra{{"py_callstack", ""}, {"timestamp", std::to_string(now.count())}};
  nlohmann::json file{{"message", {{"message", kind + ": " + message}, {"extraInfo", extra}}}};
  std::string partial = path + ".partial";
  std::ofstream out(partial);
  out << file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  out.close();
  if (!out || std::rename(partial.c_str(), path.c_str()) != 0) std::remove(partial.c_str());
}

}  // namespace taxon::launch
