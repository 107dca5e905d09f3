#include "control/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/bytes.h"
#include "control/job.h"

namespace taxon::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Calls `work` for every rank on a thread of its own.
template <class Work>
void on_all_ranks(std::vector<std::unique_ptr<Session>>& sessions, Work work) {
  std::vector<std::future<void>> running;
  for (auto& session : sessions) running.push_back(std::async(std::launch::async, [&] { work(*session); }));
  for (auto& r : running) r.get();
}

TEST(Session, OneRankAloneNeedsNoNetwork) {
  auto options = quick(0, 1, 1);  // a port that only root may use
  options.address = "no-such-host.invalid";
  auto session = Session::join(options);
  EXPECT_EQ(session->members().size(), 1u);
  EXPECT_EQ(session->exchange("x", bytes_of("a")).at(0), bytes_of("a"));
  session->leave();
}

TEST(Session, EveryRankKnowsEveryRank) {
  auto sessions = start_job(4);
  for (auto& session : sessions) {
    ASSERT_EQ(session->members().size(), 4u);
    EXPECT_EQ(session->epoch(), sessions[0]->epoch());
    for (int r = 0; r < 4; ++r) {
      const Member& member = session->members()[static_cast<std::size_t>(r)];
      EXPECT_EQ(member.rank, Rank(r));
      EXPECT_EQ(member.host_id, "host-of-" + std::to_string(r));
      EXPECT_EQ(member.blob, (std::vector<std::byte>{std::byte(r), std::byte(7)}));
      EXPECT_EQ(member.pid, getpid());
      EXPECT_EQ(member.address, "127.0.0.1");
    }
    EXPECT_LT(std::abs(session->clock_offset().count()), 1'000'000'000);
  }
  EXPECT_EQ(sessions[0]->clock_offset().count(), 0);
  leave_all(sessions);
  for (auto& session : sessions) EXPECT_FALSE(session->failure());
}

TEST(Session, JobsHaveDifferentEpochs) {
  auto a = start_job(2), b = start_job(2);
  EXPECT_NE(a[0]->epoch(), b[0]->epoch());
  leave_all(a);
  leave_all(b);
}

TEST(Session, ASecretLetsARankInFromAnywhere) {
  auto sessions = start_job(3, [](JoinOptions& options) {
    options.secret = Secret::from_text("open sesame");
    options.address = "localhost";
  });
  EXPECT_EQ(sessions.size(), 3u);
  leave_all(sessions);
}

TEST(Session, ExchangeGathersWhatAllGave) {
  auto sessions = start_job(3);
  on_all_ranks(sessions, [](Session& session) {
    for (int round = 0; round < 20; ++round) {
      std::string mine(static_cast<std::size_t>(session.rank().value() * 1000), 'a');
      auto all = session.exchange("round " + std::to_string(round), bytes_of(mine));
      ASSERT_EQ(all.size(), 3u);
      for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(all[r].size(), r * 1000);
    }
  });
  leave_all(sessions);
}

TEST(Session, ALargeExchangePasses) {
  auto sessions = start_job(2);
  on_all_ranks(sessions, [](Session& session) {
    std::vector<std::byte> mine(5'000'000, std::byte(session.rank().value()));
    auto all = session.exchange("large", mine);
    EXPECT_EQ(all.at(1), std::vector<std::byte>(5'000'000, std::byte(1)));
  });
  leave_all(sessions);
}

TEST(Session, RanksThatExchangeDifferentThingsAreNamed) {
  auto sessions = start_job(2);
  on_all_ranks(sessions, [](Session& session) {
    std::string what = session.rank() == Rank(0) ? "bucket order" : "loss";
    auto error = error_from([&] { session.exchange(what, {}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::Mismatch);
    EXPECT_THAT(error->what(), HasSubstr("it exchanges 'loss' while rank 0 exchanges 'bucket order'"));
  });
}

TEST(Session, ALateExchangeSaysWhoIsMissing) {
  Log<std::string> lines;
  auto sessions = start_job(3, [&](JoinOptions& options) {
    if (options.rank == Rank(0)) options.progress = [&](const std::string& line) { lines.add(line); };
  });
  auto first = std::async(std::launch::async, [&] { sessions[0]->exchange("order", {}); });
  lines.wait_for(
      [](const std::string& line) { return line.find("'order' waits for ranks 1, 2") != std::string::npos; });
  auto second = std::async(std::launch::async, [&] { sessions[1]->exchange("order", {}); });
  sessions[2]->exchange("order", {});
  leave_all(sessions);
}

TEST(Session, AnAbortReachesEverybodyWithItsReason) {
  for (int culprit : {0, 2}) {
    Log<Event> events[3];
    auto sessions = start_job(3);
    for (std::size_t r = 0; r < 3; ++r)
      sessions[r]->on_event([&log = events[r]](const Event& event) { log.add(event); });
    sessions[static_cast<std::size_t>(culprit)]->abort(ErrorKind::Data, "train.idx is cut short");
    for (std::size_t r = 0; r < 3; ++r) {
      if (static_cast<int>(r) == culprit) continue;
      auto aborted = wait_for_event<Aborted>(events[r]);
      EXPECT_EQ(aborted.by, Rank(culprit));
      EXPECT_EQ(aborted.kind, ErrorKind::Data);
      EXPECT_EQ(aborted.message, "train.idx is cut short");
      auto error = error_from([&] { sessions[r]->leave(); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), ErrorKind::PeerLost);  // not Data: nobody takes the echo for the failure
      EXPECT_THAT(error->what(), HasSubstr("ended the run (data): train.idx is cut short"));
      EXPECT_EQ(error->context().rank, Rank(culprit));
    }
    for (auto& session : sessions) session->abort(ErrorKind::PeerLost, "because of the other");
    sessions.clear();
    for (auto& log : events)
      for (const Event& event : log.all()) EXPECT_FALSE(std::holds_alternative<PeerLost>(event));
  }
}

TEST(Session, AnEchoOfADeathDoesNotHideTheDeath) {
  auto sessions = start_job(4);
  // Rank 1 lost its connection to rank 2 and says so before rank 0 can know of rank 2's end.
  auto echo =
      std::async(std::launch::async, [&] { sessions[1]->abort(ErrorKind::Transport, "rank 2 is gone"); });
  sessions[2].reset();
  auto error = error_from([&] { sessions[3]->exchange("x", {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->context().rank, Rank(2));
  EXPECT_EQ(error->kind(), ErrorKind::PeerLost);
}

TEST(Session, AnEchoWithoutADeathIsTheFailure) {
  auto sessions = start_job(3);
  sessions[1]->abort(ErrorKind::Transport, "the device failed");
  auto error = error_from([&] { sessions[2]->exchange("x", {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->context().rank, Rank(1));
  EXPECT_THAT(error->what(), HasSubstr("(transport): the device failed"));
}

TEST(Session, AnExchangeWithASparedRankThatIsGoneEndsTheRun) {
  for (const bool dies_first : {true, false}) {
    auto sessions = start_job(3);
    for (auto& session : sessions) session->set_expendable({Rank(2)});
    auto zero = std::async(std::launch::async,
                           [&] { return error_from([&] { sessions[0]->exchange("cores", {}); }); });
    if (dies_first) sessions[2].reset();
    auto one = std::async(std::launch::async,
                          [&] { return error_from([&] { sessions[1]->exchange("cores", {}); }); });
    if (!dies_first) sessions[2].reset();
    for (auto* pending : {&zero, &one}) {
      auto error = pending->get();
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), ErrorKind::PeerLost);
      EXPECT_EQ(error->context().rank, Rank(2));
    }
  }
}

TEST(Session, AnExchangeWithARankThatHasLeftEndsTheRun) {
  auto sessions = start_job(3);
  auto zero =
      std::async(std::launch::async, [&] { return error_from([&] { sessions[0]->exchange("cores", {}); }); });
  sessions[2]->leave();
  auto error = zero.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::Mismatch);
  EXPECT_THAT(error->what(), HasSubstr("it has left, and others exchange 'cores' with it"));
}

TEST(Session, EndingWithoutAWordIsALoss) {
  auto sessions = start_job(3);
  sessions[1].reset();
  for (std::size_t r : {0u, 2u}) {
    auto error = error_from([&] { sessions[r]->exchange("x", {}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::PeerLost);
    EXPECT_EQ(error->context().rank, Rank(1));
    // Closed, or reset where something was still to be read.
    EXPECT_THAT(error->what(), HasSubstr("rank 1 was lost: its connection "));
    EXPECT_THAT(error->what(), HasSubstr(" (process "));
  }
}

TEST(Session, WithoutRank0RankZeroIsTheCulprit) {
  auto sessions = start_job(3);
  sessions[0].reset();
  for (std::size_t r : {1u, 2u}) {
    auto error = error_from([&] { sessions[r]->exchange("x", {}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::PeerLost);
    EXPECT_EQ(error->context().rank, Rank(0));
  }
}

TEST(Session, OneRankMayLeaveBeforeTheOthers) {
  auto sessions = start_job(3);
  sessions[2]->leave();
  sessions[2].reset();
  auto zero = std::async(std::launch::async, [&] { sessions[0]->leave(); });  // waits for rank 1
  EXPECT_FALSE(sessions[1]->failure());
  sessions[1]->leave();
  zero.get();
}

TEST(Session, RankZeroLearnsOfALossWhileItLeaves) {
  auto sessions = start_job(2);
  auto zero = std::async(std::launch::async, [&] { return error_from([&] { sessions[0]->leave(); }); });
  sessions[1].reset();
  auto error = zero.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->context().rank, Rank(1));
}

TEST(Session, AStopRequestReachesEverybodyOnce) {
  Log<Event> events[3];
  auto sessions = start_job(3);
  for (std::size_t r = 0; r < 3; ++r)
    sessions[r]->on_event([&log = events[r]](const Event& event) { log.add(event); });
  sessions[1]->request_stop();
  for (auto& log : events) EXPECT_EQ(wait_for_event<StopRequested>(log).by, Rank(1));
  sessions[2]->request_stop();
  leave_all(sessions);
  for (auto& log : events) EXPECT_EQ(log.all().size(), 1u);
}

TEST(Session, EventsBeforeTheHandlerAreNotLost) {
  auto sessions = start_job(2);
  sessions[0]->request_stop();
  // Both ranks have the event when the exchange is over, because everything keeps its order.
  on_all_ranks(sessions, [](Session& session) { session.exchange("fence", {}); });
  Log<Event> log;
  sessions[1]->on_event([&](const Event& event) { log.add(event); });
  EXPECT_EQ(wait_for_event<StopRequested>(log).by, Rank(0));
  leave_all(sessions);
}

task::WaitInfo wait_since(int peer, Instant since) {
  return {"all_reduce ring", Rank(peer), "bucket 3", since};
}

TEST(Session, AHangIsReportedToEveryRankWithItsCulprit) {
  Log<Event> events[3];
  auto sessions = start_job(3);
  for (std::size_t r = 0; r < 3; ++r)
    sessions[r]->on_event([&log = events[r]](const Event& event) { log.add(event); });
  Instant now(from_seconds(100)), since(from_seconds(99));
  sessions[0]->report_waits({wait_since(2, since)}, now);
  sessions[1]->report_waits({wait_since(2, since)}, now);
  for (auto& log : events) {
    auto report = wait_for_event<HangReport>(log);
    EXPECT_THAT(report.culprits, ElementsAre(Rank(2)));
    EXPECT_THAT(report.lines.at(0), HasSubstr("rank 2 holds up the others"));
    EXPECT_THAT(report.lines.at(1), HasSubstr("waits for rank 2 in all_reduce ring, bucket 3, for 1.0 s"));
  }
  leave_all(sessions);
}

std::size_t count_hangs(Log<Event>& log) {
  std::size_t count = 0;
  for (const Event& event : log.all()) count += std::holds_alternative<HangReport>(event);
  return count;
}

TEST(Session, WhoIsSilentAgainAfterItsReturnIsReportedAgainAndNoHangIsInBetween) {
  Log<Event> events;
  std::promise<void> first, second;  // rank 2 answers nothing until they are kept
  std::shared_future<void> back_once = first.get_future(), back_again = second.get_future();
  auto sessions = start_job(3, [](JoinOptions& options) {
    options.timeouts.silence = std::chrono::seconds(2);
    options.timeouts.hang = std::chrono::hours(1);
  });
  auto is_about_rank_2 = [](const auto& event) { return event.rank == Rank(2); };
  sessions[0]->on_event([&](const Event& event) { events.add(event); });
  sessions[2]->on_event([&](const Event& event) {
    if (std::holds_alternative<StopRequested>(event)) back_once.wait();
    if (auto* back = std::get_if<Returned>(&event); back && is_about_rank_2(*back)) back_again.wait();
  });
  auto wait_for_silence = [&](std::size_t times) {
    events.wait_for([&, seen = std::size_t{0}](const Event& event) mutable {
      auto* silent = std::get_if<Silent>(&event);
      return silent && is_about_rank_2(*silent) && ++seen == times;
    });
  };
  Instant now(from_seconds(10'000)), since(from_seconds(1));
  sessions[1]->request_stop();
  wait_for_silence(1);
  sessions[1]->report_waits({wait_since(2, since)}, now);
  EXPECT_THAT(wait_for_event<HangReport>(events).culprits, ElementsAre(Rank(2)));
  std::size_t before = count_hangs(events);
  first.set_value();
  events.wait_for([&](const Event& event) {
    auto* back = std::get_if<Returned>(&event);
    return back && is_about_rank_2(*back);
  });
  sessions[0]->report_waits({wait_since(1, since)}, now);  // news, but it began while rank 2 was away
  wait_for_silence(2);
  second.set_value();
  on_all_ranks(sessions, [](Session& session) { session.exchange("fence", {}); });
  EXPECT_EQ(count_hangs(events), before);
  leave_all(sessions);
}

}  // namespace
}  // namespace taxon::control
