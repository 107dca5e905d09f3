#include "faults/tally.h"

#include <gmock/gmock.h>

namespace taxon::faults {
namespace {

using testing::HasSubstr;

Trial trial(int ranks, std::string order, Ending ending) {
  Trial trial;
  trial.shape = {ranks, "pairs", {"exchange.order=" + std::move(order), "mesh.servers=0"}};
  trial.ending = ending;
  trial.seen.report.messages = 10;
  return trial;
}

TEST(Tally, CountsATrialUnderEachOfItsSettings) {
  Tally tally;
  tally.add(trial(3, "priority", Ending::Complete));
  tally.add(trial(4, "priority", Ending::Lost));
  Trial found = trial(4, "backward", Ending::Lost);
  found.resumed = true;
  found.findings = {"two models"};
  tally.add(found);
  EXPECT_EQ(tally.all.trials, 3u);
  EXPECT_EQ(tally.all.findings, 1u);
  EXPECT_EQ(tally.messages, 30u);
  EXPECT_EQ(tally.by_setting.at("exchange.order=priority").trials, 2u);
  EXPECT_EQ(tally.by_setting.at("ranks=4").endings.at(Ending::Lost), 2u);
  EXPECT_EQ(tally.by_setting.at("layout=pairs").resumed, 1u);
}

TEST(Tally, IsATableWithALineForEachSetting) {
  Tally tally;
  tally.add(trial(3, "priority", Ending::Complete));
  Trial found = trial(3, "backward", Ending::Stuck);
  found.findings = {"two models"};
  tally.add(found);
  const std::string table = table_of(tally);
  EXPECT_THAT(table, HasSubstr("| `ranks=3` | 2 | 1 | 0 | 0 | 1 | 0 | 1 |\n"));
  EXPECT_THAT(table, HasSubstr("| `exchange.order=priority` | 1 | 1 | 0 | 0 | 0 | 0 | 0 |\n"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2 + 5);
}

}  // namespace
}  // namespace taxon::faults
