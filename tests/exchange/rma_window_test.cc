// Workers and servers that share memory: what is copied, and that the results are those of messages.
#include <gtest/gtest.h>

#include "exchange/server_member.h"
#include "support/passing_transport.h"
#include "support/runtimes.h"
#include "support/virtual_ranks.h"
#include "support/worlds.h"

namespace taxon::exchange {
namespace {

/// Bytes of values that a rank handed to its transport: in messages, which are copied into the network's
/// memory and out of it, and in puts, which are copied once.
struct Copies {
  std::size_t messages = 0, puts = 0, stored = 0;
};

class CountingTransport final : public test::PassingTransport {
 public:
  CountingTransport(net::Transport& inner, Copies& copies) : PassingTransport(inner), copies_(copies) {}
  void start(net::SendOp& op) override {
    const auto message = static_cast<ServerWire::Message>(op.tag.round);
    if (op.tag.operation == net::Operation::Serve &&
        (message == ServerWire::HandedIn || message == ServerWire::Answer))
      copies_.messages += op.payload.size();
    inner_.start(op);
  }
  void start(net::PutOp& op) override {
    copies_.puts += op.payload.size();
    inner_.start(op);
  }
  void count_stored(std::size_t bytes) override {
    copies_.stored += bytes;
    inner_.count_stored(bytes);
  }

 private:
  Copies& copies_;
};

enum class Into { HandedIn, Other };

/// Three turns of each worker, all in step or one after the other.
struct WindowScene {
  plan::LevelPlan level;
  int ranks = 3, dedicated = 1;
  Into into = Into::HandedIn;
  bool lasts = true;
  std::vector<int> order;          // of turns, where one worker goes on after another; empty: all in step
  int turns = 3;                   // of each, all in step
  std::vector<double> weights;     // worker 0's at last
  std::vector<Copies> copies;      // [rank]
  std::vector<std::string> paths;  // a server's
};

task::Task<void> step(WindowScene* scene, Member* member, int turn) {
  for (double& value : member->all(member->gradients)) value = 1 + turn + 0.25 * member->rank();
  const bool placed = scene->into == Into::HandedIn;
  auto going = member->turn(placed ? &member->gradients : nullptr);
  co_await going;
  const tensor::Arena& came = placed ? member->gradients : member->weights;
  if (member->rank() == 0) scene->weights.assign(member->all(came).begin(), member->all(came).end());
}

task::Task<void> play(WindowScene* scene, comm::Runtime* doors) {
  CountingTransport counting(doors->transport,
                             scene->copies[static_cast<std::size_t>(doors->rank().value())]);
  comm::Runtime runtime{counting, doors->device, doors->recorder};
  Member member(runtime, scene->ranks, scene->dedicated, scene->level);
  member.lasts = scene->lasts;
  auto beginning = member.begin(1);
  co_await beginning;
  for (int turn = 0; scene->order.empty() && member.works() && turn < scene->turns; ++turn) {
    auto stepping = step(scene, &member, turn);
    co_await stepping;
  }
  for (std::size_t t = 0; t < scene->order.size(); ++t) {
    if (scene->order[t] != member.rank()) continue;
    if (t > 0 && scene->order[t - 1] != member.rank()) {
      auto waiting = member.take_token(scene->order[t - 1]);
      co_await waiting;
    }
    auto stepping = step(scene, &member, static_cast<int>(t));
    co_await stepping;
    if (t + 1 < scene->order.size() && scene->order[t + 1] != member.rank()) {
      auto going_on = member.give_token(scene->order[t + 1]);
      co_await going_on;
    }
  }
  if (member.service())
    for (int worker = 0; worker < scene->ranks - scene->dedicated; ++worker)
      scene->paths.push_back(member.service()->path_of(worker));
  auto ending = member.end();
  co_await ending;
}

WindowScene played(WindowScene scene, net::LoopbackOptions options) {
  scene.copies.assign(static_cast<std::size_t>(scene.ranks), {});
  const test::RuntimeBody body = [&](comm::Runtime& doors) { return play(&scene, &doors); };
  test::run_runtimes(scene.ranks, body, options);
  return scene;
}
WindowScene with_memory(const WindowScene& scene) { return played(scene, {}); }
WindowScene with_messages(const WindowScene& scene) { return played(scene, {.share_memory = false}); }

Copies sum(const std::vector<Copies>& copies) {
  Copies all;
  for (const Copies& one : copies) {
    all.messages += one.messages;
    all.puts += one.puts;
    all.stored += one.stored;
  }
  return all;
}

constexpr std::size_t kModel = 64 * sizeof(double);  // bytes of Member's tensors

// Two workers, three turns. Every value is copied once on its way to the server, by the worker, and once on
// its way back, by the server. Only first contributions are messages: their places were not known yet.
TEST(Placed, ValuesAreCopiedOnceEachWay) {
  const Copies placed = sum(with_memory({.level = level_of(0, 0)}).copies);
  EXPECT_EQ(placed.messages, 2 * kModel);
  EXPECT_EQ(placed.puts, 2 * 2 * kModel);
  EXPECT_EQ(placed.stored, 3 * 2 * kModel);
  const Copies other = sum(with_messages({.level = level_of(0, 0)}).copies);
  EXPECT_EQ(other.messages, 3 * 2 * 2 * kModel + 2 * kModel);  // whose end comes with values too
  EXPECT_EQ(other.puts + other.stored, 0u);
}

TEST(Placed, ResultsAreThoseOfMessages) {
  for (int dedicated : {0, 1, 2})
    for (Into into : {Into::HandedIn, Into::Other}) {
      const WindowScene scene{
          .level = level_of(0, 0), .ranks = 4, .dedicated = dedicated, .into = into, .turns = 5};
      const WindowScene placed = with_memory(scene);
      EXPECT_GT(placed.weights.size(), 0u);
      EXPECT_EQ(placed.weights, with_messages(scene).weights) << dedicated;
    }
}

// Where the memory of what was handed in is another bucket's by then, no answer is written there.
TEST(Placed, AnswersDoNotGoWhereMemoryHasOtherUses) {
  const WindowScene scene{.level = level_of(0, 0), .into = Into::Other, .lasts = false};
  const WindowScene placed = with_memory(scene);
  EXPECT_EQ(placed.weights, with_messages(scene).weights);
  EXPECT_EQ(sum(placed.copies).stored, 0u);
  EXPECT_EQ(sum(placed.copies).puts, 2 * 2 * kModel);
}

#if TAXON_TEST_UCX
task::Task<void> play_in_process(WindowScene* scene, net::Transport* transport,
                                 const std::vector<double>* expected) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime doors{*transport, device, recorder};
  auto playing = play(scene, &doors);
  co_await playing;
  const Copies& copies = scene->copies[static_cast<std::size_t>(doors.rank().value())];
  EXPECT_EQ(copies.messages, doors.rank() == Rank(2) ? 0 : kModel);  // the first contribution
  if (doors.rank() == Rank(0)) {
    EXPECT_EQ(scene->weights, *expected);
  }
}

TEST(Placed, HoldsBetweenProcesses) {
  WindowScene scene{.level = level_of(0, 0), .turns = 20};
  const std::vector<double> expected = with_messages(scene).weights;
  scene.copies.assign(3, {});
  const test::RankBody body = [&](net::Transport& transport) {
    return play_in_process(&scene, &transport, &expected);
  };
  test::run_ranks_as_processes(3, body);
}
#endif

// Updates take four contributions, and nobody waits: worker 0's second and third come while its first waits
// in its place. They go as messages; nothing is written over.
TEST(Placed, AContributionThatWaitsIsNotWrittenOver) {
  const WindowScene scene{.level = level_of(-1, 4), .order = {0, 0, 0, 1, 0, 1, 1, 0}};
  const WindowScene placed = with_memory(scene);
  EXPECT_EQ(placed.weights, with_messages(scene).weights);
  EXPECT_GT(placed.copies[0].messages, kModel);
  EXPECT_GT(placed.copies[0].puts, 0u);
}

TEST(Placed, HoldsInsideAVirtualHost) {
  const WindowScene scene{.level = level_of(0, 0), .ranks = 4, .turns = 5};
  WindowScene inside = scene;
  inside.copies.assign(4, {});
  sim::World world(test::delayed(test::one_host(4)), 4);
  const sim::RankBody body = [&](comm::Runtime& doors) { return play(&inside, &doors); };
  const sim::Report report = world.run(body);
  ASSERT_FALSE(report.failure);
  EXPECT_EQ(inside.weights, with_messages(scene).weights);
  EXPECT_GT(sum(inside.copies).stored, 0u);
}

TEST(Placed, TheServerNamesThePathOfEachWorker) {
  const WindowScene placed = with_memory({.level = level_of(0, 0)});
  ASSERT_EQ(placed.paths.size(), 2u);
  EXPECT_EQ(placed.paths[0], "written into place, through loopback");
  EXPECT_EQ(with_messages({.level = level_of(0, 0)}).paths[1], "messages, through loopback");
}

// A peer can't make this rank write elsewhere.
TEST(Placed, PlacesOutsideOfTheirRegionAreRefused) {
  const test::RankBody body = [](net::Transport& transport) -> task::Task<void> {
    const tensor::Arena arena(transport, DType::Float32, 64);
    const WindowDescriptor told = describe_window(arena, {16, 32}, 7);
    const RemoteWindow place(told, transport.rank(), 128, transport.signals());
    EXPECT_EQ(place.offset(), 64u);
    EXPECT_EQ(place.signal().index, 7u);
    EXPECT_EQ(place.map(transport).data(), arena.bytes({16, 32}).data());
    WindowDescriptor beyond = told;
    beyond.offset = 192;
    EXPECT_THROW(RemoteWindow(beyond, transport.rank(), 128, transport.signals()), Error);
    EXPECT_THROW(RemoteWindow(told, transport.rank(), 256, transport.signals()), Error);
    EXPECT_THROW(RemoteWindow(told, transport.rank(), 128, told.signal), Error) << "a signal that is none";
    WindowDescriptor longer = told;
    longer.packed = WindowDescriptor::kRoom + 1;
    EXPECT_THROW(RemoteWindow(longer, transport.rank(), 128, transport.signals()), Error);
    EXPECT_THROW(RemoteWindow(told, Rank(transport.rank().value() + 1), 128, transport.signals()), Error);
    EXPECT_FALSE(RemoteWindow(describe_window(tensor::Arena(DType::Float32, 64), {0, 64}, 0),
                              transport.rank(), 256, transport.signals()));
    co_return;
  };
  test::run_ranks(1, body);
}

}  // namespace
}  // namespace taxon::exchange
