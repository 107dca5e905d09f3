#include <gmock/gmock.h>

#include <set>

#include "comm/cases.h"

namespace taxon::test {
namespace {

// 60 us and 1 Gbit/s; 2 us and 4 GB/s.
const comm::LinkCost kEthernet{60e-6, 119e6, 1e-10}, kMemory{2e-6, 4e9, 1e-10};

std::string chosen(net::Operation collective, const comm::Shape& shape, const comm::LinkCost& cost) {
  return std::string(comm::choose_row(collective, shape, cost).name);
}

TEST(TableTest, NamesAreUniquePerCollectiveAndFound) {
  std::set<std::string> names;
  for (const comm::CollectiveRow& row : comm::collective_table()) {
    EXPECT_TRUE(names.insert(row_name(row)).second) << row_name(row);
    EXPECT_EQ(&comm::find_row(row.collective, row.name), &row);
  }
}

TEST(TableTest, AnUnknownNameIsAnsweredWithTheNamesThatExist) {
  try {
    comm::find_row(net::Operation::AllReduce, "rign");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("rign"), testing::HasSubstr("ring, "),
                                             testing::HasSubstr("halving_doubling")));
  }
}

TEST(ChooseTest, SharedMemoryIsUsedDirectly) {
  for (auto collective : {net::Operation::AllReduce, net::Operation::ReduceScatter, net::Operation::AllGather,
                          net::Operation::Broadcast, net::Operation::Barrier})
    EXPECT_EQ(chosen(collective, {4, 1 << 20, true}, kMemory), "direct");
  EXPECT_EQ(chosen(net::Operation::AllReduce, {4, 64, true}, kMemory), "one_shot");
}

TEST(ChooseTest, OverANetworkLatencyDecidesFirstAndBandwidthThen) {
  for (int members : {3, 4, 5, 8, 9, 16}) {
    EXPECT_NE(chosen(net::Operation::AllReduce, {members, 64, false}, kEthernet), "ring") << members;
    EXPECT_EQ(chosen(net::Operation::AllReduce, {members, 64 << 20, false}, kEthernet), "ring") << members;
  }
  EXPECT_EQ(chosen(net::Operation::AllReduce, {8, 16 << 10, false}, kEthernet), "halving_doubling");
  EXPECT_EQ(chosen(net::Operation::Barrier, {8, 0, false}, kEthernet), "dissemination");
}

TEST(ChooseTest, WhereUrgencyDiffersOneThatGivesWayIsChosenIfItIsAboutAsFast) {
  const auto chosen_for = [](std::size_t bytes, comm::Urgency urgency) {
    return comm::choose_row(net::Operation::AllReduce, {8, bytes, false}, kEthernet, {}, urgency).name;
  };
  EXPECT_EQ(chosen_for(1 << 20, comm::Urgency::Equal), "halving_doubling");
  EXPECT_EQ(chosen_for(1 << 20, comm::Urgency::Differs), "ring");
  EXPECT_EQ(chosen_for(64 << 10, comm::Urgency::Differs), "halving_doubling");  // 14 messages to 6
  for (int members = 1; members <= 20; ++members)
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 30; bytes *= 8)
      for (const comm::CollectiveRow& any : comm::collective_table()) {
        const comm::Shape shape{members, bytes, false};
        const auto& fastest = comm::choose_row(any.collective, shape, kEthernet);
        const auto& row = comm::choose_row(any.collective, shape, kEthernet, {}, comm::Urgency::Differs);
        EXPECT_TRUE(&row == &fastest || row.gives_way);
        EXPECT_LE(row.estimate(shape, kEthernet), 1.25 * fastest.estimate(shape, kEthernet));
      }
}

TEST(ChooseTest, OnlyApplicableRowsAreChosen) {
  for (int members = 1; members <= 20; ++members)
    for (std::size_t bytes : {std::size_t{0}, std::size_t{4}, std::size_t{1} << 30}) {
      comm::Shape shape{members, bytes, false};
      for (const comm::CollectiveRow& row : comm::collective_table())
        EXPECT_TRUE(comm::choose_row(row.collective, shape, kMemory).applies(shape));
    }
}

/// More bytes, more latency or less bandwidth never make a row look faster.
TEST(EstimateTest, IsPositiveAndMonotonous) {
  for (const comm::CollectiveRow& row : comm::collective_table())
    for (int members = 2; members <= 17; ++members) {
      double before = 0;
      for (std::size_t bytes = 64; bytes <= std::size_t{1} << 30; bytes *= 4) {
        comm::Shape shape{members, bytes, true};
        double seconds = row.estimate(shape, kEthernet);
        EXPECT_GT(seconds, 0);
        EXPECT_GE(seconds * 1.0001, before) << row_name(row) << ", " << members << " members, " << bytes;
        EXPECT_LE(row.estimate(shape, kMemory), seconds) << row_name(row);
        before = seconds;
      }
      EXPECT_EQ(row.estimate({1, 1 << 20, true}, kEthernet), 0) << row_name(row);
    }
}

/// A ring of large data is at the bound of any all-reduce.
TEST(EstimateTest, ARingReachesTheBoundOfItsLinks) {
  comm::Shape shape{4, 64 << 20, false};
  double bound = 2 * 3 / 4.0 * static_cast<double>(shape.bytes) / kEthernet.bandwidth;
  double ring = comm::find_row(net::Operation::AllReduce, "ring").estimate(shape, kEthernet);
  EXPECT_GE(ring, bound);
  EXPECT_LE(ring, 1.01 * bound);
}

}  // namespace
}  // namespace taxon::test
