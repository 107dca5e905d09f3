#include "report/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

namespace taxon::report {
namespace {

using Json = nlohmann::json;

Json parse(const std::string& text) { return Json::parse(text).at("traceEvents"); }

std::vector<Json> events_of(const Json& all, const char* phase, const char* name = nullptr) {
  std::vector<Json> found;
  for (const Json& event : all)
    if (event.at("ph") == phase && (!name || event.at("name") == name)) found.push_back(event);
  return found;
}

TEST(ChromeTrace, OneProcessPerRankAndOneThreadPerTrack) {
  Json all = parse(
      chrome_trace({{{"compute", "forward", -1, 0, 10, 5.5}, {"exchange", "all_reduce ring", 1, 4096, 12, 2}},
                    {{"exchange", "all_reduce ring", 1, 4096, 13, 2}, {"compute", "forward", -1, 0, 11, 4}}},
                   {"bucket 0", "bucket 1 (fc.weight)"}));
  auto processes = events_of(all, "M", "process_name");
  ASSERT_EQ(processes.size(), 2U);
  EXPECT_EQ(processes[1]["pid"], 1);
  EXPECT_EQ(processes[1]["args"]["name"], "rank 1");
  EXPECT_EQ(events_of(all, "M", "process_sort_index").size(), 2U);

  std::map<std::pair<int, int>, std::string> tracks;
  for (const Json& thread : events_of(all, "M", "thread_name"))
    tracks[{thread["pid"], thread["tid"]}] = thread["args"]["name"];
  EXPECT_EQ(tracks.size(), 4U);
  for (int rank : {0, 1}) {  // one order of tracks on all ranks
    EXPECT_EQ((tracks[{rank, 0}]), "compute");
    EXPECT_EQ((tracks[{rank, 1}]), "exchange");
  }
}

TEST(ChromeTrace, SpansKeepTheirTimesNamesAndArguments) {
  Json all = parse(chrome_trace({{{"exchange", "all_reduce", 1, 4096, 12.25, 2.5},
                                  {"exchange", "barrier", -1, 0, -3, 0},
                                  {"exchange", "odd", 7, 0, 20, 1}}},
                                {"bucket 0", "bucket 1"}));
  auto spans = events_of(all, "X");
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0]["name"], "all_reduce");
  EXPECT_EQ(spans[0]["ts"], 12.25);
  EXPECT_EQ(spans[0]["dur"], 2.5);
  EXPECT_EQ(spans[0]["pid"], 0);
  EXPECT_EQ(spans[0]["args"]["unit"], "bucket 1");
  EXPECT_EQ(spans[0]["args"]["bytes"], 4096);
  EXPECT_FALSE(spans[1].contains("args"));
  EXPECT_EQ(spans[1]["ts"], -3.0);
  EXPECT_EQ(spans[2]["args"]["unit"], 7) << "a unit without a name keeps its number";
}

TEST(ChromeTrace, OddTextStaysValidJson) {
  Json all = parse(chrome_trace({{{"a \"b\"\n", "name \xff", -1, 0, 0, 1}}}, {}));
  EXPECT_EQ(events_of(all, "M", "thread_name").at(0)["args"]["name"], "a \"b\"\n");
  EXPECT_EQ(events_of(all, "X").size(), 1U);
}

TEST(ChromeTrace, OfNothingIsEmpty) {
  EXPECT_TRUE(parse(chrome_trace({}, {})).empty());
  EXPECT_TRUE(events_of(parse(chrome_trace({{}, {}}, {})), "X").empty());
}

}  // namespace
}  // namespace taxon::report
