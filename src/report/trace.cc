#include "report/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace taxon::report {
namespace {

using Json = nlohmann::ordered_json;

Json metadata(const char* name, std::size_t rank, int thread, const std::string& value) {
  return {{"name", name}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", value}}}};
}

}  // namespace

std::string chrome_trace(const std::vector<std::vector<TraceSpan>>& spans_by_rank,
                         const std::vector<std::string>& unit_names) {
  Json events = Json::array();
  for (std::size_t rank = 0; rank < spans_by_rank.size(); ++rank) {
    events.push_back(metadata("process_name", rank, 0, "rank " + std::to_string(rank)));
    std::map<std::string, int> threads;
    for (const TraceSpan& span : spans_by_rank[rank]) {
      auto [thread, fresh] = threads.try_emplace(span.track, static_cast<int>(threads.size()));
      if (fresh) events.push_back(metadata("thread_name", rank, thread->second, span.track));
      Json event = {{"name", span.name},     {"ph", "X"},           {"pid", rank},
                    {"tid", thread->second}, {"ts", span.begin_us}, {"dur", span.duration_us}};
      if (span.unit >= 0) {
        auto unit = static_cast<std::size_t>(span.unit);
        event["args"]["unit"] = unit < unit_names.size() ? Json(unit_names[unit]) : Json(span.unit);
      }
      if (span.bytes > 0) event["args"]["bytes"] = span.bytes;
      events.push_back(std::move(event));
    }
  }
  Json trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return trace.dump();
}

}  // namespace taxon::report
