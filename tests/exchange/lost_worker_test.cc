// A server and the workers that do what none should: hand in the same twice, and disappear.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/consistency/clocks.h"
#include "exchange/server/parameter_server.h"
#include "support/runtimes.h"

namespace taxon::exchange {
namespace {

using testing::Each;
using testing::ElementsAre;
using Kind = AsyncEvent::Kind;

constexpr std::size_t kValues = 16;

Layout one_bucket() {
  plan::ExchangePlan plan;
  const std::vector<Tensor> tensors = {{"w", {static_cast<std::int64_t>(kValues)}}};
  return lay_out(tensors, cut_buckets(tensors, DType::Float64, plan), DType::Float64);
}

/// Adds up whatever comes.
class Adder final : public ServerState {
 public:
  explicit Adder(const tensor::Arena& weights) : sum_(weights.type(), weights.size()) {}
  void begin(const tensor::Arena&, Range) override {}
  void update(const tensor::Arena& sum, Range range, const PendingUpdate&) override {
    auto own = sum_.values<double>(range);
    auto more = sum.values<double>({0, range.size});
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += more[i];
  }
  const tensor::Arena& values() const override { return sum_; }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return {}; }

 private:
  tensor::Arena sum_;
};

struct Loss {
  int workers = 1;
  Consistency numbers;
  std::vector<Rank> spared;
  std::function<task::Task<void>(comm::Communicator&, const Layout&)> work;
  std::function<void(comm::FailureMonitor&)> later;  // at the server
  AsyncEvents events;
  double sum = 0;
};

task::Task<void> serve(Loss* scene, comm::Communicator* group, const Layout* layout) {
  comm::Runtime& runtime = group->runtime();
  comm::FailureMonitor losses(scene->spared);
  tensor::Arena weights(DType::Float64, layout->arena.size());
  ParameterServer::Setup setup;
  setup.layout = layout;
  setup.group = group;
  setup.roles = {group->size(), 1};
  plan::LevelPlan level{.topology = "servers"};
  level.options = {{"staleness", scene->numbers.staleness},
                   {"quorum", scene->numbers.quorum},
                   {"apply", scene->numbers.apply}};
  setup.level = &level;
  setup.consistency = &find_consistency(level.consistency);
  setup.owner = std::make_unique<Adder>(weights);
  setup.weights = &weights;
  setup.log.record = &scene->events;
  setup.failures = &losses;
  ParameterServer service(runtime, std::move(setup));
  auto opening = service.open();
  co_await opening;
  std::int64_t none = 0;
  service.serve(none, none);
  if (scene->later) {
    task::SleepUntil soon(runtime.executor(), runtime.pending(),
                          runtime.executor().now() + std::chrono::milliseconds(5));
    co_await soon;
    scene->later(losses);
  }
  auto closed = service.closed();
  co_await closed;
  scene->sum = service.owner().values().values<double>({0, 1})[0];
}

task::Task<void> play(Loss* scene, comm::Runtime* runtime) {
  std::vector<Rank> everybody;
  for (int r = 0; r < runtime->world_size(); ++r) everybody.emplace_back(r);
  comm::Communicator group(*runtime, "data", everybody);
  auto establish = group.establish();
  co_await establish;
  const Layout layout = one_bucket();
  const bool server = group.rank() == scene->workers;
  auto part = server ? serve(scene, &group, &layout) : scene->work(group, layout);
  co_await part;
}

void run(Loss* scene) {
  test::RuntimeBody body = [&](comm::Runtime& runtime) { return play(scene, &runtime); };
  test::run_runtimes(scene->workers + 1, body, {.share_memory = false});  // heads as work() speaks them
}

/// One message of a contribution and its answer, by hand.
task::Task<double> hand_in(comm::Communicator* group, std::uint32_t context, std::int64_t number,
                           double value) {
  net::Transport& transport = group->runtime().transport;
  const Rank server = group->global(group->size() - 1);
  ServerWire::Head head{ServerWire::Contribution, number, 0, 1, 1, number}, answer_head{};
  std::vector<double> values(kValues, value), answer(kValues);
  net::SendOp says(transport, server, channel_tag(*group, 0, context, ServerWire::HandedInHead),
                   as_const_view(std::span<const std::int64_t>(head)), DType::Int64);
  net::SendOp sends(transport, server, channel_tag(*group, 0, context, ServerWire::HandedIn),
                    as_const_view(std::span<const double>(values)), DType::Float64);
  net::RecvOp hears(transport, server, channel_tag(*group, 0, context, ServerWire::AnswerHead),
                    as_view(std::span<std::int64_t>(answer_head)), DType::Int64);
  net::RecvOp gets(transport, server, channel_tag(*group, 0, context, ServerWire::Answer),
                   as_view(std::span(answer)), DType::Float64);
  co_await says;
  co_await sends;
  co_await hears;
  co_await gets;
  EXPECT_THAT(answer, Each(answer[0]));
  co_return answer[0];
}

task::Task<void> close(comm::Communicator* group, std::uint32_t context) {
  net::Transport& transport = group->runtime().transport;
  const Rank server = group->global(group->size() - 1);
  const ServerWire::Head head{ServerWire::Close};
  ServerWire::Head done{};
  const std::vector<double> values(kValues);
  net::SendOp says(transport, server, channel_tag(*group, 0, context, ServerWire::HandedInHead),
                   as_const_view(std::span<const std::int64_t>(head)), DType::Int64);
  net::SendOp sends(transport, server, channel_tag(*group, 0, context, ServerWire::HandedIn),
                    as_const_view(std::span<const double>(values)), DType::Float64);
  net::SendOp ends(transport, server, channel_tag(*group, kServerControlUnit, 0, ServerWire::Control),
                   as_const_view(std::span<const std::int64_t>(head)), DType::Int64);
  net::RecvOp hears(transport, server, channel_tag(*group, kServerControlUnit, 0, ServerWire::ControlDone),
                    as_view(std::span<std::int64_t>(done)), DType::Int64);
  co_await says;
  co_await sends;
  co_await ends;
  co_await hears;
}

task::Task<void> hand_in_twice(comm::Communicator* group, std::vector<double>* answers) {
  const std::int64_t numbers[] = {0, 1, 1, 1, 2};
  std::uint32_t context = 0;
  for (std::int64_t number : numbers) {
    auto handing = hand_in(group, context++, number, 3);
    const double answer = co_await handing;
    answers->push_back(answer);
  }
  auto closing = close(group, context);
  co_await closing;
}

TEST(ParameterServer, AppliesAContributionThatIsSentAgainOnce) {
  std::vector<double> answers;
  Loss scene{.workers = 1, .numbers = {.staleness = Consistency::kUnbounded, .apply = 1}};
  scene.work = [&](comm::Communicator& group, const Layout&) { return hand_in_twice(&group, &answers); };
  run(&scene);
  EXPECT_EQ(scene.sum, 9);
  EXPECT_THAT(answers, ElementsAre(3, 6, 6, 6, 9));
  EXPECT_EQ(std::count_if(scene.events.begin(), scene.events.end(),
                          [](const AsyncEvent& event) { return event.kind == Kind::Repeat; }),
            2);
}

/// Worker 0 does two steps, worker 1 none.
task::Task<void> work_alone(comm::Communicator* group, std::vector<double>* answers) {
  if (group->rank() > 0) co_return;
  for (std::uint32_t context = 0; context < 2; ++context) {
    auto handing = hand_in(group, context, context, 1);
    const double answer = co_await handing;
    answers->push_back(answer);
  }
  auto closing = close(group, 2);
  co_await closing;
}

TEST(ParameterServer, DoesWithoutAWorkerThatIsLost) {
  std::vector<double> answers;
  Loss scene{.workers = 2, .numbers = {.staleness = 0, .apply = 1}, .spared = {Rank(1)}};
  scene.work = [&](comm::Communicator& group, const Layout&) { return work_alone(&group, &answers); };
  scene.later = [](comm::FailureMonitor& losses) {
    losses.report_lost(Rank(1), std::make_exception_ptr(Error(ErrorKind::PeerLost, "gone")));
  };
  run(&scene);
  EXPECT_THAT(answers, ElementsAre(1, 2));
  EXPECT_EQ(std::count(scene.events.begin(), scene.events.end(), AsyncEvent{Kind::Lose, 0, 1, 0}), 1);
}

TEST(ParameterServer, EndsWhenTooFewAreLeftForItsQuorum) {
  std::vector<double> answers;
  Loss scene{.workers = 2, .numbers = {.staleness = 0, .quorum = 2, .apply = 2}, .spared = {Rank(1)}};
  scene.work = [&](comm::Communicator& group, const Layout&) { return work_alone(&group, &answers); };
  scene.later = [](comm::FailureMonitor& losses) {
    losses.report_lost(Rank(1), std::make_exception_ptr(Error(ErrorKind::PeerLost, "gone")));
  };
  try {
    run(&scene);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("rank 1 was lost, and the 1 workers that are left make no quorum of 2"));
  }
}

}  // namespace
}  // namespace taxon::exchange
