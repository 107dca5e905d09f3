#include "comm/cases.h"

namespace taxon::test {
namespace {

const std::vector<std::size_t> kLengths{0, 1, 2, 3, 5, 7, 8, 9, 17, 64, 1000, 4099, 100003};
const std::vector<DType> kTypes{DType::Float32, DType::Float64, DType::BFloat16};

/// Every row in every world that lives in this process, for 1 to 9 members and every length and type.
class RowTest : public testing::TestWithParam<const comm::CollectiveRow*> {
 protected:
  std::vector<Case> cases() const {
    std::vector<Case> all;
    for (std::size_t length : kLengths)
      for (DType type : kTypes) {
        all.push_back({GetParam(), type, length, Values::Random});
        if (length <= 4099) all.push_back({GetParam(), type, length, Values::Integers});
      }
    return all;
  }
  void check(const World& world, int members, const std::vector<Case>& some) const {
    SCOPED_TRACE(world.name);
    world.run(members, [&](net::Transport& transport) { return check_cases(transport, some); });
  }
};

TEST_P(RowTest, IsRightWithSharedMemory) {
  World world = all_worlds()[0];
  for (int members = 1; members <= 9; ++members) check(world, members, cases());
}

TEST_P(RowTest, IsRightWithoutSharedMemory) {
  World world = all_worlds()[1];
  for (int members = 1; members <= 9; ++members) check(world, members, cases());
}

TEST_P(RowTest, IsRightWhenEverythingIsLate) {
  std::vector<Case> some;
  for (std::size_t length : {0, 1, 17, 4099, 100003})
    some.push_back({GetParam(), DType::Float32, length, Values::Random});
  for (int members : {2, 3, 5})
    for (bool share : {true, false})
      run_delayed(
          members, [&](net::Transport& transport) { return check_cases(transport, some); },
          {.seed = static_cast<std::uint64_t>(members), .longest_delay = std::chrono::microseconds(100)},
          {.share_memory = share});
}

/// Enough for every segment and window of the pipelines.
TEST_P(RowTest, IsRightForManySegments) {
  std::vector<Case> some{{GetParam(), DType::Float32, (std::size_t{9} << 18) + 5, Values::Random}};
  for (int members : {2, 3, 6})
    for (const World& world : {all_worlds()[0], all_worlds()[1]}) check(world, members, some);
}

/// As far ahead as a path of a thousand kilometres asks for.
TEST_P(RowTest, IsRightOverLongPaths) {
  std::vector<Case> some;
  for (std::size_t length : {std::size_t{17}, (std::size_t{9} << 18) + 5})
    some.push_back({GetParam(), DType::Float32, length, Values::Random});
  for (int members : {2, 3, 6})
    for (std::size_t in_flight : {1 << 20, 1 << 24})
      run_delayed(
          members, [&](net::Transport& transport) { return check_cases(transport, some); },
          {.seed = in_flight, .longest_delay = std::chrono::microseconds(100), .in_flight = in_flight},
          {.share_memory = false});
}

INSTANTIATE_TEST_SUITE_P(Rows, RowTest, testing::ValuesIn(all_rows()),
                         [](const auto& info) { return row_name(*info.param); });

/// Every row over real processes.
class ProcessesTest : public testing::TestWithParam<World> {};

TEST_P(ProcessesTest, EveryRowIsRight) {
  std::vector<Case> some;
  for (const comm::CollectiveRow* row : all_rows())
    for (std::size_t length : {0, 1, 17, 4099, 100003}) {
      some.push_back({row, DType::Float32, length, Values::Random});
      some.push_back({row, DType::BFloat16, length, Values::Integers});
    }
  for (int members : {2, 3, 5})
    GetParam().run(members, [&](net::Transport& transport) { return check_cases(transport, some); });
}

std::vector<World> process_worlds() {
  std::vector<World> worlds = all_worlds();
  worlds.erase(worlds.begin(), worlds.begin() + 3);
  return worlds;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProcessesTest);
INSTANTIATE_TEST_SUITE_P(Ucx, ProcessesTest, testing::ValuesIn(process_worlds()), world_name);

}  // namespace
}  // namespace taxon::test
