#include "report/trace.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace taxon::report {
namespace {

using Json = nlohmann::ordered_json;

Json metadata(const char* name, std::size_t rank, int thread, Json arguments) {
  return {{"name", name}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", std::move(arguments)}};
}

/// One number per track, the same on every rank, so that viewers show the tracks of all ranks in one order.
std::map<std::string, int> number_tracks(const std::vector<std::vector<TraceSpan>>& spans_by_rank) {
  std::map<std::string, int> numbers;
  for (const auto& spans : spans_by_rank)
    for (const TraceSpan& span : spans) numbers.try_emplace(span.track, static_cast<int>(numbers.size()));
  return numbers;
}

}  // namespace

std::string chrome_trace(const std::vector<std::vector<TraceSpan>>& spans_by_rank,
                         const std::vector<std::string>& unit_names) {
  Json events = Json::array();
  std::map<std::string, int> threads = number_tracks(spans_by_rank);
  for (std::size_t rank = 0; rank < spans_by_rank.size(); ++rank) {
    events.push_back(metadata("process_name", rank, 0, {{"name", "rank " + std::to_string(rank)}}));
    events.push_back(metadata("process_sort_index", rank, 0, {{"sort_index", rank}}));
    std::set<int> seen;
    for (const TraceSpan& span : spans_by_rank[rank]) {
      int thread = threads.at(span.track);
      if (seen.insert(thread).second)
        events.push_back(metadata("thread_name", rank, thread, {{"name", span.track}}));
      Json event = {{"name", span.name}, {"ph", "X"},           {"pid", rank},
                    {"tid", thread},     {"ts", span.begin_us}, {"dur", span.duration_us}};
      if (span.unit >= 0) {
        auto unit = static_cast<std::size_t>(span.unit);
        event["args"]["unit"] = unit < unit_names.size() ? Json(unit_names[unit]) : Json(span.unit);
      }
      if (span.bytes > 0) event["args"]["bytes"] = span.bytes;
      events.push_back(std::move(event));
    }
  }
  Json trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace taxon::report
