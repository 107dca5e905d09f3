// What can be wrong when a job gathers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/rng.h"
#include "control/handshake.h"
#include "control/job.h"
#include "control/wire.h"

namespace taxon::control {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

using Pending = std::future<std::unique_ptr<Session>>;

std::string why(Pending& pending, ErrorKind kind = ErrorKind::Rendezvous) {
  auto error = error_from([&] { pending.get(); });
  if (!error) return "no error";
  EXPECT_EQ(error->kind(), kind);
  return error->what();
}

Fd connect_to(std::uint16_t port) {
  auto endpoint = resolve("127.0.0.1", port).endpoints.at(0);
  while (true) {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), endpoint.get(), endpoint.size) == 0) return fd;
    std::this_thread::sleep_for(milliseconds(5));
  }
}

void send_all(const Fd& fd, std::span<const std::byte> bytes) {
  [[maybe_unused]] auto n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// Reads until the other side closes.
void read_to_end(const Fd& fd) {
  char buffer[4096];
  while (recv(fd.get(), buffer, sizeof buffer, 0) > 0) continue;
}

/// Two ranks that disagree about something: both must say `expected`.
void expect_disagreement(std::function<void(JoinOptions&)> edit, const std::string& expected) {
  auto port = free_port();
  auto other = quick(1, 2, port);
  edit(other);
  auto zero = join_later(quick(0, 2, port)), one = join_later(other);
  std::string at_zero = why(zero), at_one = why(one);
  EXPECT_THAT(at_zero, HasSubstr(expected));
  EXPECT_EQ(at_zero, at_one);
  EXPECT_EQ(at_zero.find('\n'), std::string::npos);
}

TEST(Rendezvous, VersionsThatDiffer) {
  expect_disagreement([](JoinOptions& o) { o.version = "2"; },
                      "has Taxon 2, rank 0 has 1: install the same version on every host");
}

TEST(Rendezvous, PlansThatDiffer) {
  expect_disagreement([](JoinOptions& o) { o.plan_hash = "q"; }, "has plan q, rank 0 has p");
}

TEST(Rendezvous, WorldSizesThatDiffer) {
  expect_disagreement([](JoinOptions& o) { o.world_size = 3; }, "has world size 3, rank 0 has 2");
}

TEST(Rendezvous, SeveralDisagreementsAreToldTogether) {
  expect_disagreement(
      [](JoinOptions& o) {
        o.version = "2";
        o.plan_hash = "q";
      },
      "on every host; rank 1");
}

TEST(Rendezvous, ARankThatIsThereTwice) {
  auto port = free_port();
  auto zero = join_later(quick(0, 3, port)), one = join_later(quick(1, 3, port)),
       again = join_later(quick(1, 3, port));
  for (Pending* pending : {&zero, &one, &again})
    EXPECT_THAT(why(*pending), AllOf(HasSubstr("rank 1 (process "), HasSubstr("is there twice")));
}

TEST(Rendezvous, ALateCopyOfARankDoesNotHarmTheJob) {
  auto port = free_port();
  auto zero = join_later(quick(0, 2, port)), one = join_later(quick(1, 2, port));
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(zero.get());
  sessions.push_back(one.get());
  auto again = join_later(quick(1, 2, port));
  EXPECT_THAT(why(again), HasSubstr("is too late: the job at rank 0 has started with all 2 ranks"));
  EXPECT_FALSE(sessions[0]->failure());
  leave_all(sessions);
}

TEST(Rendezvous, APortInUse) {
  auto port = free_port();
  auto listening = listen_on(resolve("127.0.0.1", port).endpoints.at(0));
  ASSERT_TRUE(listening.fd.valid());
  auto zero = join_later(quick(0, 2, port));
  EXPECT_THAT(why(zero), AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)),
                               HasSubstr("the port is in use"), HasSubstr("MASTER_PORT")));
}

TEST(Rendezvous, WithoutASecretAJobStaysOnThisMachine) {
  auto zero = quick(0, 2, free_port()), one = quick(1, 2, free_port());
  zero.address = one.address = "192.0.2.7";
  for (auto& options : {zero, one}) {
    auto pending = join_later(options);
    EXPECT_THAT(why(pending), AllOf(HasSubstr("192.0.2.7"), HasSubstr("TAXON_SECRET_FILE")));
  }
}

TEST(Rendezvous, AWrongSecretIsRefusedAndTheJobGoesOn) {
  auto port = free_port();
  Log<std::string> lines;
  auto with = [&](int rank, const char* secret) {
    auto options = quick(rank, 2, port);
    options.secret = Secret::from_text(secret);
    options.progress = [&](const std::string& line) { lines.add(line); };
    return options;
  };
  auto zero = join_later(with(0, "right"));
  auto wrong = join_later(with(1, "wrong")), none = join_later(with(1, ""));
  EXPECT_THAT(why(wrong), HasSubstr("rank 1's secret is not that of rank 0 at 127.0.0.1:"));
  EXPECT_THAT(why(none), AllOf(HasSubstr("has a secret and rank 1 has none"), HasSubstr("TAXON_SECRET=")));
  lines.wait_for([](const std::string& line) {
    return line == "a caller from 127.0.0.1 was turned away: its secret is not this job's";
  });
  auto right = join_later(with(1, "right"));
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(zero.get());
  sessions.push_back(right.get());
  leave_all(sessions);
}

TEST(Rendezvous, ASecretThatRank0DoesNotHave) {
  auto port = free_port();
  auto options = quick(1, 2, port);
  options.secret = Secret::from_text("mine");
  auto zero = join_later(quick(0, 2, port)), one = join_later(options);
  EXPECT_THAT(why(one), HasSubstr("which has none: another job may use this address"));
  auto proper = join_later(quick(1, 2, port));
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(zero.get());
  sessions.push_back(proper.get());
  leave_all(sessions);
}

TEST(Rendezvous, ALateMasterIsWaitedForAndNamed) {
  auto port = free_port();
  Log<std::string> lines;
  auto options = quick(1, 2, port);
  options.progress = [&](const std::string& line) { lines.add(line); };
  auto one = join_later(options);
  auto line = lines.wait_for([](const std::string& l) { return l.find("refused") != std::string::npos; });
  EXPECT_THAT(line, HasSubstr("rank 1: cannot reach rank 0 at 127.0.0.1:" + std::to_string(port) +
                              ": Connection refused (errno 111) ("));
  auto zero = join_later(quick(0, 2, port));
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(zero.get());
  sessions.push_back(one.get());
  leave_all(sessions);
}

/// The machine's own may take seconds to say so.
Resolution knows_no_names(const std::string& name, std::uint16_t port) {
  if (name == "127.0.0.1") return resolve(name, port);
  return {{}, "cannot resolve the name '" + name + "': nobody knows it"};
}

TEST(Rendezvous, ANameThatMeansNothingYetIsRetriedUntilTheDeadline) {
  auto options = quick(1, 2, free_port());
  options.secret = Secret::from_text("s");
  options.address = "no-such-host.invalid";
  options.resolve = knows_no_names;
  options.timeouts.join = milliseconds(300);
  auto one = join_later(options);
  EXPECT_THAT(why(one), AllOf(HasSubstr("cannot resolve the name 'no-such-host.invalid'"),
                              HasSubstr("set MASTER_ADDR"), HasSubstr("gave up")));
}

TEST(Rendezvous, WaitingSaysWhoIsMissingAndSoDoesTheDeadline) {
  auto port = free_port();
  Log<std::string> at_zero, at_one;
  auto zero_options = quick(0, 4, port), one_options = quick(1, 4, port);
  zero_options.progress = [&](const std::string& line) { at_zero.add(line); };
  one_options.progress = [&](const std::string& line) { at_one.add(line); };
  zero_options.timeouts.join = milliseconds(3'000);
  auto zero = join_later(zero_options), one = join_later(one_options);
  at_one.wait_for(
      [](const std::string& l) { return l.find("and waits for ranks 2, 3 of 4") != std::string::npos; });
  at_zero.wait_for([&](const std::string& l) {
    return l.find("rank 0 waits at 127.0.0.1:" + std::to_string(port) + " for ranks 2, 3 of 4") !=
           std::string::npos;
  });
  for (Pending* pending : {&zero, &one})
    EXPECT_THAT(why(*pending),
                AllOf(HasSubstr("only 2 of 4 ranks joined"), HasSubstr("missing: ranks 2, 3")));
}

TEST(Rendezvous, AnotherProgramsPortIsRecognised) {
  auto port = free_port();
  auto listening = listen_on(resolve("127.0.0.1", port).endpoints.at(0));
  Log<std::string> lines;
  auto options = quick(1, 2, port);
  std::atomic<bool> seen = false;
  options.give_up = [&]() -> std::optional<Error> {
    if (!seen) return {};
    return Error(ErrorKind::Interrupted, "seen");
  };
  options.progress = [&](const std::string& line) { lines.add(line); };
  auto one = join_later(options);
  Fd caller;
  while (!caller.valid()) caller = Fd(accept4(listening.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::vector<std::byte> greeting(kChallengeBytes, std::byte('*'));
  send_all(caller, greeting);
  lines.wait_for([](const std::string& l) {
    return l.find("something listens there that is not Taxon") != std::string::npos;
  });
  seen = true;
  EXPECT_NE(why(one, ErrorKind::Interrupted), "no error");
}

/// Joins and is there for the others, who miss one more; then its connection ends without a word.
void come_and_die(std::uint16_t port, int rank, int world);

TEST(Rendezvous, ARankThatDiesBeforeTheJobStartsEndsItForAllAndIsNamed) {
  auto port = free_port();
  Log<std::string> lines;
  auto zero_options = quick(0, 4, port);
  zero_options.progress = [&](const std::string& line) { lines.add(line); };
  auto zero = join_later(zero_options), one = join_later(quick(1, 4, port));
  // Whoever comes after the end of the job finds nobody, and waits for a rank 0 that may still come.
  lines.wait_for([](const std::string& l) { return l.find("for ranks 2, 3 of 4") != std::string::npos; });
  come_and_die(port, 2, 4);
  for (Pending* pending : {&zero, &one}) {
    auto error = error_from([&] { pending->get(); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::PeerLost);
    EXPECT_EQ(error->context().rank, Rank(2));
    EXPECT_THAT(error->what(),
                AllOf(HasSubstr("rank 2 was lost before all 4 ranks were there: its connection "),
                      HasSubstr("(process 4321 at 127.0.0.1)")));
  }
}

TEST(Rendezvous, ARankZeroThatDiesBeforeTheJobStartsEndsItForAll) {
  auto port = free_port();
  auto listening = listen_on(resolve("127.0.0.1", port).endpoints.at(0));
  auto one = join_later(quick(1, 3, port));
  Fd caller;
  while (!caller.valid()) caller = Fd(accept4(listening.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  Challenge challenge{.nonce = random_nonce()};
  send_all(caller, encode(challenge));
  std::array<std::byte, kAnswerBytes> bytes;
  ASSERT_EQ(recv(caller.get(), bytes.data(), bytes.size(), MSG_WAITALL), ssize_t(bytes.size()));
  auto answer = decode_answer(bytes);
  ASSERT_TRUE(answer);
  send_all(caller, encode(Verdict{.proof = prove(Secret(), Role::Hub, challenge.nonce, answer->nonce)}));
  std::array<std::byte, 16> hello;
  ASSERT_GT(recv(caller.get(), hello.data(), hello.size(), 0), 0);
  listening.fd = Fd();
  caller = Fd();
  EXPECT_THAT(why(one, ErrorKind::PeerLost), HasSubstr("rank 0 was lost before all 3 ranks were there"));
}

TEST(Rendezvous, WhoGivesUpTellsTheOthersWhy) {
  auto port = free_port();
  std::atomic<bool> asked{false};
  auto options = quick(1, 3, port);
  options.give_up = [&]() -> std::optional<Error> {
    if (!asked) return {};
    return Error(ErrorKind::Interrupted, "interrupted");
  };
  Log<std::string> lines;
  auto zero_options = quick(0, 3, port);
  zero_options.progress = [&](const std::string& line) { lines.add(line); };
  auto zero = join_later(zero_options), one = join_later(options);
  lines.wait_for([](const std::string& l) { return l.find("for rank 2 of 3") != std::string::npos; });
  asked = true;
  EXPECT_THAT(why(one, ErrorKind::Interrupted), HasSubstr("interrupted while joining"));
  EXPECT_THAT(why(zero, ErrorKind::Interrupted), HasSubstr("rank 1 ended the run (interrupted)"));
}

TEST(Rendezvous, AResolverThatBlocksHoldsUpNobody) {
  std::promise<void> released;
  auto options = quick(1, 2, free_port());
  options.address = "slow.example";
  options.resolve = [blocked = released.get_future().share()](const std::string&, std::uint16_t) {
    blocked.wait();
    return Resolution{};
  };
  options.give_up = [] { return Error(ErrorKind::Interrupted, "interrupted"); };
  auto one = join_later(options);
  EXPECT_THAT(why(one, ErrorKind::Interrupted), HasSubstr("interrupted while joining"));
  released.set_value();
}

TEST(Rendezvous, ANameThatMeansNothingIsReplacedByTheOtherAddress) {
  auto port = free_port();
  auto options = quick(1, 2, port);
  options.address = "no-such-host.invalid";
  options.resolve = knows_no_names;
  options.other_address = "127.0.0.1";
  auto zero = join_later(quick(0, 2, port)), one = join_later(options);
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(zero.get());
  sessions.push_back(one.get());
  leave_all(sessions);
}

TEST(Rendezvous, GivingUpEndsTheWait) {
  auto options = quick(1, 2, free_port());
  options.give_up = [] { return Error(ErrorKind::Interrupted, "interrupted"); };
  auto one = join_later(options);
  EXPECT_THAT(why(one, ErrorKind::Interrupted), HasSubstr("interrupted while joining"));
}

TEST(Rendezvous, StrangersAndGarbageChangeNothing) {
  auto port = free_port();
  auto secret = [](JoinOptions options) {
    options.secret = Secret::from_text("s");
    return options;
  };
  auto zero = join_later(secret(quick(0, 2, port)));
  Rng rng(11, "garbage");
  std::vector<Fd> idle;
  for (int i = 0; i < 40; ++i) {
    Fd fd = connect_to(port);
    std::vector<std::byte> bytes(rng.below(300));
    for (auto& b : bytes) b = static_cast<std::byte>(rng.below(256));
    send_all(fd, bytes);
    if (bytes.size() >= kAnswerBytes)
      read_to_end(fd);  // enough to be judged: it is turned away
    else
      idle.push_back(std::move(fd));  // says too little and stays
  }
  auto one = join_later(secret(quick(1, 2, port)));
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(zero.get());
  sessions.push_back(one.get());
  send_all(connect_to(port), std::vector<std::byte>(500, std::byte(0xff)));
  EXPECT_FALSE(sessions[0]->failure());
  leave_all(sessions);
}

/// A caller that knows the (empty) secret.
Fd call(std::uint16_t port) {
  Fd fd = connect_to(port);
  std::array<std::byte, kChallengeBytes> challenge;
  EXPECT_EQ(recv(fd.get(), challenge.data(), challenge.size(), MSG_WAITALL), ssize_t(challenge.size()));
  Answer answer{.nonce = random_nonce()};
  answer.proof = prove(Secret(), Role::Caller, decode_challenge(challenge)->nonce, answer.nonce);
  send_all(fd, encode(answer));
  return fd;
}

/// Sends `bytes` instead of a hello.
void call_and_send(std::uint16_t port, std::span<const std::byte> bytes) {
  Fd fd = call(port);
  send_all(fd, bytes);
  read_to_end(fd);
}

void come_and_die(std::uint16_t port, int rank, int world) {
  Fd fd = call(port);
  send_all(fd, *encode(control::Message{{{"type", "hello"},
                                         {"rank", rank},
                                         {"world", world},
                                         {"version", "1"},
                                         {"plan", "p"},
                                         {"host", "h"},
                                         {"pid", 4321}},
                                        {}}));
  std::array<std::byte, kVerdictBytes + 1> verdict;  // and the beginning of a word of who is missing
  EXPECT_EQ(recv(fd.get(), verdict.data(), verdict.size(), MSG_WAITALL), ssize_t(verdict.size()));
}

TEST(Rendezvous, MalformedMessagesAreTurnedAway) {
  auto port = free_port();
  Log<std::string> lines;
  auto options = quick(0, 2, port);
  options.progress = [&](const std::string& line) { lines.add(line); };
  auto zero = join_later(options);
  call_and_send(port, std::vector<std::byte>(16, std::byte(0xff)));  // 4 GiB of head
  lines.wait_for([](const std::string& l) { return l.find("over the limit") != std::string::npos; });
  call_and_send(port, *encode(control::Message{{{"type", "hello"}, {"rank", "three"}}, {}}));
  call_and_send(port, *encode(control::Message{{{"type", "goodbye"}}, {}}));
  lines.wait_for([](const std::string& l) { return l.find("no hello") != std::string::npos; });
  auto one = join_later(quick(1, 2, port));
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(zero.get());
  sessions.push_back(one.get());
  leave_all(sessions);
}

}  // namespace
}  // namespace taxon::control
