#include "model/torch/reason.h"

#include <c10/util/Exception.h>

#include <sstream>
#include <string_view>

namespace taxon::model {

std::string reason_of(const std::exception& error) {
  const auto* framework = dynamic_cast<const c10::Error*>(&error);
  std::string text = framework ? framework->what_without_backtrace() : error.what();
  text = text.substr(0, text.find("\nException raised from "));
  constexpr std::string_view kRaised = "RuntimeError: ";
  std::string where, line, first;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    if (first.empty()) first = line;
    if (line.starts_with("  File ")) where = line.substr(2);
    if (line.starts_with(kRaised)) first = line.substr(kRaised.size());
  }
  return where.empty() ? first : first + " (" + where + ")";
}

}  // namespace taxon::model
