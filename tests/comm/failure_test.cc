#include "comm/cases.h"

namespace taxon::test {
namespace {

/// All but the last member enter a large collective; the last one fails a little later, which cancels all.
task::Task<void> leave_alone(net::Transport& transport, const comm::CollectiveRow* row, std::size_t length,
                             std::vector<comm::FlightRecorder>* journals) {
  Member member(transport, length * sizeof(float));
  auto met = member.meet();
  co_await met;
  Case c{row, DType::Float32, length, Values::Integers};
  auto first = use(member, c);
  co_await first;
  if (transport.rank().value() == transport.world_size() - 1) {
    task::SleepUntil pause(transport.executor(), transport.pending(),
                           transport.executor().now() + Duration(std::chrono::microseconds(500)));
    co_await pause;
    throw Error(ErrorKind::PeerLost, "gone");
  }
  std::exception_ptr error;
  try {
    auto second = use(member, c);
    co_await second;
  } catch (...) {
    error = std::current_exception();
  }
  (*journals)[static_cast<std::size_t>(transport.rank().value())] = member.recorder;
  if (error) std::rethrow_exception(error);
}

class FailureTest : public testing::TestWithParam<const comm::CollectiveRow*> {};

/// Everything unwinds: an operation that died while the network owned its buffer would stop the process.
TEST_P(FailureTest, ALostMemberEndsTheUseOfAllOthers) {
  for (int members : {2, 3, 5})
    for (std::size_t length : {std::size_t{10}, std::size_t{1} << 19})
      for (bool share : {true, false}) {
        if (!GetParam()->applies({members, 4 * length, share})) continue;
        std::vector<comm::FlightRecorder> journals(static_cast<std::size_t>(members));
        RankBody body = [&](net::Transport& transport) {
          return leave_alone(transport, GetParam(), length, &journals);
        };
        try {
          run_ranks(members, body, {.share_memory = share});
          ADD_FAILURE() << "nobody noticed";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::PeerLost) << error.what();
        }
      }
}

/// The use that failed is in the recorder too, which is printed when a run fails.
TEST(JournalTest, HasFinishedAndFailedUses) {
  const auto& row = comm::find_row(net::Operation::AllReduce, "ring");
  std::vector<comm::FlightRecorder> journals(2);
  RankBody body = [&](net::Transport& transport) { return leave_alone(transport, &row, 10, &journals); };
  EXPECT_THROW(run_ranks(2, body), Error);
  auto spans = journals[0].recent();
  ASSERT_EQ(spans.size(), 2U);
  for (const comm::Span& span : spans) {
    EXPECT_STREQ(span.track, "exchange");
    EXPECT_STREQ(span.name, "all_reduce ring");
    EXPECT_EQ(span.unit, 0);
    EXPECT_EQ(span.bytes, 40U);
    EXPECT_LE(span.begin, span.end);
  }
  EXPECT_LT(spans[0].end, spans[1].end);
}

INSTANTIATE_TEST_SUITE_P(Rows, FailureTest, testing::ValuesIn(all_rows()),
                         [](const auto& info) { return row_name(*info.param); });

/// Several uses in flight at a time: one row for each unit, one behind the other on each.
struct Unit {
  const comm::CollectiveRow* row;
  std::size_t begin, length;  // elements
};

task::Task<void> use_unit(Member* member, Unit unit, std::uint32_t index) {
  Case c{unit.row, DType::Float32, unit.length, Values::Integers};
  View data = member->arena.bytes().slice(unit.begin * sizeof(float), unit.length * sizeof(float));
  for (int round = 0; round < 3; ++round) {
    fill(data, c.type, c.values, member->group.rank());
    auto done = unit.row->run(member->group, comm::Call{data, c.type, index});
    co_await done;
    SCOPED_TRACE(describe(c, member->group.size()));
    expect_result(c, data, member->group.rank(), member->group.size());
  }
}

task::Task<void> use_all_units(net::Transport& transport, const std::vector<Unit>& units) {
  Member member(transport, (units.back().begin + units.back().length) * sizeof(float));
  auto met = member.meet();
  co_await met;
  task::Scope scope(transport.pending());
  // Members start them in different orders: what must agree is the order on each unit alone.
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::size_t index = (i + static_cast<std::size_t>(transport.rank().value())) % units.size();
    scope.spawn(use_unit(&member, units[index], static_cast<std::uint32_t>(index)));
  }
  co_await scope.join();
  auto end = comm::find_row(net::Operation::Barrier, "dissemination").run(member.group, {});
  co_await end;
}

TEST(ConcurrencyTest, UnitsDoNotDisturbEachOther) {
  for (int members : {2, 4, 5})
    for (bool share : {true, false})
      for (bool late : {false, true}) {
        std::vector<Unit> units;
        std::size_t begin = 0;
        for (std::size_t length : {5, 4000, 300000})
          for (const comm::CollectiveRow* row : all_rows()) {
            if (!row->applies({members, length * sizeof(float), share})) continue;
            units.push_back({row, begin, length});
            begin += (length + 15) / 16 * 16;
          }
        RankBody body = [&](net::Transport& transport) { return use_all_units(transport, units); };
        if (late)
          run_delayed(members, body, {.seed = 3, .longest_delay = std::chrono::microseconds(200)},
                      {.share_memory = share});
        else
          run_ranks(members, body, {.share_memory = share});
      }
}

/// A barrier holds everybody until the last has come.
task::Task<void> come_late(net::Transport& transport, const comm::CollectiveRow* row, int* entered) {
  Member member(transport, 1);
  auto met = member.meet();
  co_await met;
  for (int round = 1; round <= 3; ++round) {
    // In turn each member is the last.
    int place = (transport.rank().value() + round) % transport.world_size();
    task::SleepUntil pause(transport.executor(), transport.pending(),
                           transport.executor().now() + Duration(std::chrono::microseconds(100 * place)));
    co_await pause;
    ++*entered;
    auto passed = row->run(member.group, {});
    co_await passed;
    EXPECT_GE(*entered, round * transport.world_size()) << row->name;
  }
  auto end = row->run(member.group, {});
  co_await end;
}

TEST(BarrierTest, NobodyLeavesBeforeAllHaveEntered) {
  for (const comm::CollectiveRow* row : all_rows()) {
    if (row->collective != net::Operation::Barrier) continue;
    for (int members : {1, 2, 3, 6, 7}) {
      int entered = 0;
      run_ranks(members, [&](net::Transport& transport) { return come_late(transport, row, &entered); });
      EXPECT_EQ(entered, 3 * members);
    }
  }
}

}  // namespace
}  // namespace taxon::test
