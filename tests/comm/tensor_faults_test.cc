// Tensor channels when something goes wrong: writers that overrun, peers that die, memory that is gone. And
// the long runs that show that nothing does.
#include <gmock/gmock.h>
#include <signal.h>

#include "comm/tensor_ends.h"
#include "support/errors.h"
#include "support/passing_transport.h"

namespace taxon::comm {
namespace {

using task::Task;
using test::fill_tensor;
using test::is_tensor;
using test::TensorPlace;
using testing::HasSubstr;

/// The bug to be caught: rank 0 never waits for a credit.
class WithoutCredits final : public test::PassingTransport {
 public:
  using PassingTransport::PassingTransport;
  void start(net::AwaitSignalOp& op) override {
    if (op.tag.operation != net::Operation::Tensor || op.tag.sequence == 0 || rank() != Rank(0) || off)
      return PassingTransport::start(op);
    op.seen = op.value;
    op.complete();
  }
  bool off = false;
};

enum class CreditsAre { Kept, Ignored };

struct LongRun {
  std::uint64_t count = 0;
  TensorOptions options;
  CreditsAre credits = CreditsAre::Kept;
  enum class Writer { Fast, Polite } writer = Writer::Fast;  // polite: lets the reader run after each tensor
};

constexpr std::size_t kWords = 8;

Task<void> write_fast(TensorPlace* place, LongRun run) {
  auto opening = StaticSender::open(place->group, {}, TensorShape::of(DType::Int64, {kWords}), run.options);
  auto sender = co_await opening;
  std::array<std::uint64_t, kWords> tensor;
  for (std::uint64_t number = 1; number <= run.count; ++number) {
    tensor.fill(number);
    auto sent = sender->send(as_view(std::span<std::uint64_t>(tensor)));
    co_await sent;
    if (run.writer == LongRun::Writer::Fast) continue;
    task::Yield others(place->runtime.executor());
    co_await others;
  }
}

/// The consumer lets the writer run between its look at the tensor and its release.
Task<void> read_slowly(TensorPlace* place, LongRun run, std::uint64_t* wrong) {
  auto opening = StaticReceiver::open(place->group, place->arena, {}, TensorShape::of(DType::Int64, {kWords}),
                                      run.options);
  auto receiver = co_await opening;
  for (std::uint64_t number = 1; number <= run.count; ++number) {
    auto receiving = receiver->receive();
    ReceivedTensor tensor = co_await receiving;
    task::Yield others(place->runtime.executor());
    co_await others;
    for (std::uint64_t word : as_span<std::uint64_t>(tensor.bytes())) *wrong += word != number;
    auto released = receiver->release(std::move(tensor));
    co_await released;
  }
}

/// Empty if nothing was noticed; otherwise what the reader threw. No rank frees its memory before both are
/// through.
Task<void> run_long(net::Transport* net, LongRun run, std::string* noticed, std::uint64_t* wrong) {
  WithoutCredits bugged(*net);
  net::Transport& used = run.credits == CreditsAre::Ignored ? bugged : *net;
  TensorPlace place(used);
  std::exception_ptr thrown;
  try {
    auto mine = place.is(0) ? write_fast(&place, run) : read_slowly(&place, run, wrong);
    co_await mine;
  } catch (const Error& error) {
    thrown = std::current_exception();
  }
  if (thrown) *noticed = test::message_of(thrown);
  auto met = test::meet(place.group);
  co_await met;
}

/// What the reader noticed and how many words were wrong, over loopback.
std::pair<std::string, std::uint64_t> long_run(const LongRun& run, net::LoopbackOptions options = {}) {
  std::string noticed;
  std::uint64_t wrong = 0;
  test::run_ranks(
      2, [&](net::Transport& net) { return run_long(&net, run, &noticed, &wrong); }, options);
  return {noticed, wrong};
}

TEST(TensorCredits, AMillionTensorsAreNeverWrittenOver) {
  const auto [noticed, wrong] = long_run({.count = 1'000'000, .options = {.depth = 3}});
  EXPECT_EQ(noticed, "");
  EXPECT_EQ(wrong, 0u);
}

TEST(TensorCredits, WithoutThemTheSenderIsFoundOut) {
  const auto [noticed, wrong] =
      long_run({.count = 1000, .options = {.depth = 3}, .credits = CreditsAre::Ignored});
  EXPECT_THAT(noticed, HasSubstr("the sender writes over tensors that are in use"));
}

TEST(TensorCredits, WithoutThemATensorInUseIsFoundOut) {
  LongRun run{.count = 10,
              .options = {.depth = 1, .integrity = Integrity::Checked},
              .writer = LongRun::Writer::Polite};
  EXPECT_EQ(long_run(run).first, "");
  run.credits = CreditsAre::Ignored;
  EXPECT_THAT(long_run(run).first, HasSubstr("written over while it was in use"));
}

#if TAXON_TEST_UCX
class TensorProcesses : public testing::TestWithParam<test::World> {};
std::vector<test::World> process_worlds() {
  std::vector<test::World> worlds = test::all_worlds();
  worlds.erase(worlds.begin(), worlds.begin() + 3);
  return worlds;
}
INSTANTIATE_TEST_SUITE_P(Ucx, TensorProcesses, testing::ValuesIn(process_worlds()), test::world_name);

TEST_P(TensorProcesses, AFasterWriterNeverOverruns) {
  for (Integrity integrity : {Integrity::Fast, Integrity::Checked})
    GetParam().run(2, [integrity](net::Transport& net) -> Task<void> {
      std::string noticed;
      std::uint64_t wrong = 0;
      const LongRun run{.count = 1000, .options = {.depth = 16, .integrity = integrity}};
      auto ran = run_long(&net, run, &noticed, &wrong);
      co_await ran;
      EXPECT_EQ(noticed, "");
      EXPECT_EQ(wrong, 0u);
    });
}

TEST_P(TensorProcesses, AWriterWithoutCreditsIsFoundOut) {
  GetParam().run(2, [](net::Transport& net) -> Task<void> {
    std::string noticed;
    std::uint64_t wrong = 0;
    const LongRun run{.count = 2000, .options = {.depth = 2}, .credits = CreditsAre::Ignored};
    auto ran = run_long(&net, run, &noticed, &wrong);
    co_await ran;
    if (net.rank() == Rank(0)) co_return;
    EXPECT_THAT(noticed, HasSubstr("the sender writes over tensors"));
  });
}

/// Kills the process when half of its second tensor is written.
class DiesInTheMiddle final : public test::PassingTransport {
 public:
  DiesInTheMiddle(net::Transport& inner, std::size_t size) : PassingTransport(inner), size_(size) {}
  void start(net::PutOp& op) override {
    if (op.payload.size() != size_ || ++tensors_ < 2) return inner_.start(op);
    const View there = inner_.map(*op.region);
    if (!there.empty()) std::memcpy(there.data() + op.offset, op.payload.data(), size_ / 2);
    kill(getpid(), SIGKILL);
  }

 private:
  std::size_t size_;
  int tensors_ = 0;
};

/// The sender dies in the middle of a write. What liveness says (src/control) ends the reader's wait, and
/// half a tensor is never taken for one.
Task<void> die_in_the_middle(net::Transport* net) {
  const TensorShape shape = TensorShape::of(DType::Float32, {1000});
  // One place: the second tensor begins when the first has been released.
  const TensorOptions options{.depth = 1, .integrity = Integrity::Checked};
  DiesInTheMiddle dying(*net, shape.bytes());
  TensorPlace place(dying);
  if (place.is(0)) {
    auto opening = StaticSender::open(place.group, {}, shape, options);
    auto sender = co_await opening;
    std::vector<std::byte> tensor(shape.bytes(), std::byte{1});
    for (;;) {
      auto sent = sender->send(ConstView(tensor.data(), tensor.size()));
      co_await sent;
    }
  }
  auto opening = StaticReceiver::open(place.group, place.arena, {}, shape, options);
  auto receiver = co_await opening;
  auto receiving = receiver->receive();
  ReceivedTensor first = co_await receiving;
  auto released = receiver->release(std::move(first));
  co_await released;
  task::Scope scope(net->pending());
  auto liveness = [](net::Transport* net) -> Task<void> {
    auto wait = test::pause(*net, std::chrono::milliseconds(50));
    co_await wait;
    net->pending().cancel(std::make_exception_ptr(Error(ErrorKind::PeerLost, "as liveness says")));
  };
  scope.spawn(liveness(net));
  std::exception_ptr lost;
  try {
    auto never = receiver->receive();
    co_await never;
  } catch (...) {
    lost = std::current_exception();
  }
  EXPECT_EQ(test::kind_of(lost), ErrorKind::PeerLost);
  try {
    co_await scope.join();
  } catch (const Error&) {  // TCP may know first, which ends the pause
  }
}

TEST(TensorLoss, ADeadSenderEndsTheWait) {
  for (const char* transport : {"shm", "tcp"}) {
    auto codes = test::run_processes(2, [&](test::Process& process) {
      test::UcxRank rank(process, {.transport = transport});
      rank.run([&](net::Transport& net) { return die_in_the_middle(&net); });
      return 0;
    });
    EXPECT_THAT(codes, testing::ElementsAre(128 + SIGKILL, 0)) << transport;
  }
}
#endif

/// A sender that fails takes the receiver along, wherever it waits, and every block comes back.
Task<void> fail_alone(net::Transport* net) {
  TensorPlace place(*net);
  if (place.is(0)) {
    auto opening = DynamicSender::open(place.group, place.arena, {}, {});
    auto sender = co_await opening;
    auto allocating = place.arena.allocate(100, "sent");
    TensorBlock block = co_await allocating;
    auto sent = sender->send(std::move(block), TensorShape::of(DType::UInt8, {100}));
    co_await sent;
    auto wait = test::pause(*net, std::chrono::microseconds(200));
    co_await wait;
    throw Error(ErrorKind::PeerLost, "gone");
  }
  auto opening = DynamicReceiver::open(place.group, place.arena, {}, {}, TensorRead::Copied);
  auto receiver = co_await opening;
  for (;;) {
    auto receiving = receiver->receive();
    ReceivedTensor tensor = co_await receiving;
    auto released = receiver->release(std::move(tensor));
    co_await released;
  }
}

TEST(TensorLoss, EverythingUnwinds) {
  for (bool share : {true, false}) {
    std::exception_ptr seen;
    try {
      test::run_ranks(2, [](net::Transport& net) { return fail_alone(&net); }, {.share_memory = share});
    } catch (...) {
      seen = std::current_exception();
    }
    EXPECT_EQ(test::kind_of(seen), ErrorKind::PeerLost);
  }
}

TEST(TensorUse, AfterReleaseIsCaught) {
  EXPECT_DEATH(test::run_ranks(2,
                               [](net::Transport& net) -> Task<void> {
                                 TensorPlace place(net);
                                 const TensorShape shape = TensorShape::of(DType::Float32, {4});
                                 if (place.is(0)) {
                                   auto opening = StaticSender::open(place.group, {}, shape, {});
                                   auto sender = co_await opening;
                                   std::array<float, 4> values{};
                                   auto sent = sender->send(as_view(std::span<float>(values)));
                                   co_await sent;
                                   auto closed = sender->close();
                                   co_await closed;
                                   co_return;
                                 }
                                 auto opening = StaticReceiver::open(place.group, place.arena, {}, shape, {});
                                 auto receiver = co_await opening;
                                 auto receiving = receiver->receive();
                                 ReceivedTensor tensor = co_await receiving;
                                 auto released = receiver->release(std::move(tensor));
                                 co_await released;
                                 tensor.bytes();
                               }),
               "used after it was released");
}

/// What the receiver says when somebody does `harm` to a tensor that it reads in place.
std::string harmed(Integrity integrity, const std::function<void(TensorBlock&)>& harm) {
  std::string said;
  const TensorShape shape = TensorShape::of(DType::UInt8, {500});
  TensorBlock block;
  const TensorOptions options{.integrity = integrity};
  test::RankBody body = [&](net::Transport& net) -> Task<void> {
    TensorPlace place(net, {.bytes = 1 << 16, .integrity = integrity});
    if (place.is(0)) {
      auto opening = DynamicSender::open(place.group, place.arena, {}, options);
      auto sender = co_await opening;
      auto allocating = place.arena.allocate(500, "shared");
      block = co_await allocating;
      fill_tensor(block.bytes(), 1);
      auto sent = sender->send(block, shape);
      co_await sent;
      auto met = test::meet(place.group);
      co_await met;
      block = {};
      co_return;
    }
    auto opening = DynamicReceiver::open(place.group, place.arena, {}, options, TensorRead::InPlace);
    auto receiver = co_await opening;
    auto receiving = receiver->receive();
    ReceivedTensor tensor = co_await receiving;
    EXPECT_TRUE(is_tensor(tensor.bytes(), 1));
    harm(block);
    std::exception_ptr thrown;
    try {
      auto released = receiver->release(std::move(tensor));
      co_await released;
    } catch (...) {
      thrown = std::current_exception();
    }
    said = test::message_of(thrown);
    auto met = test::meet(place.group);
    co_await met;
  };
  test::run_ranks(2, body);
  return said;
}

TEST(TensorUse, AWriteIntoATensorThatIsReadIsFoundOut) {
  auto write = [](TensorBlock& block) { block.bytes().data()[499] ^= std::byte{1}; };
  EXPECT_EQ(harmed(Integrity::Checked, [](TensorBlock&) {}), "");
  EXPECT_THAT(harmed(Integrity::Checked, write), HasSubstr("written into while it was in use"));
}

/// Damages the metadata that rank 0 writes.
class Forging final : public test::PassingTransport {
 public:
  Forging(net::Transport& inner, std::size_t word, std::uint64_t value)
      : PassingTransport(inner), word_(word), value_(value) {}
  void start(net::PutOp& op) override {
    if (rank() == Rank(0) && !op.payload.empty())
      std::memcpy(const_cast<std::byte*>(op.payload.data()) + 8 * word_, &value_, sizeof value_);
    inner_.start(op);
  }

 private:
  std::size_t word_;
  std::uint64_t value_;
};

/// What the receiver says when 64-bit word `word` of the metadata is `value`: sequence, then offset, size,
/// generation and index of the block.
std::string forged(std::size_t word, std::uint64_t value) {
  std::string said;
  test::run_ranks(2, [&](net::Transport& net) -> Task<void> {
    Forging forging(net, word, value);
    TensorPlace place(forging, {.bytes = 4096});
    if (place.is(0)) {
      auto opening = DynamicSender::open(place.group, place.arena, {}, {});
      auto sender = co_await opening;
      auto allocating = place.arena.allocate(512, "sent");
      TensorBlock block = co_await allocating;
      auto sent = sender->send(std::move(block), TensorShape::of(DType::UInt8, {512}));
      co_await sent;
      auto met = test::meet(place.group);
      co_await met;
      co_return;
    }
    auto opening = DynamicReceiver::open(place.group, place.arena, {}, {}, TensorRead::InPlace);
    auto receiver = co_await opening;
    std::exception_ptr thrown;
    try {
      auto receiving = receiver->receive();
      co_await receiving;
    } catch (...) {
      thrown = std::current_exception();
    }
    said = test::message_of(thrown);
    auto met = test::meet(place.group);
    co_await met;
  });
  return said;
}

TEST(TensorMetadata, ThatAreForgedAreRefused) {
  EXPECT_THAT(forged(0, 7), HasSubstr("hold number 7"));
  EXPECT_THAT(forged(1, 4096 - 256), HasSubstr("outside of the arena"));
  EXPECT_THAT(forged(1, ~std::uint64_t{0}), HasSubstr("outside of the arena"));
  EXPECT_THAT(forged(2, 511), HasSubstr("not those of its shape"));
  EXPECT_THAT(forged(3, 2), HasSubstr("given it up"));
  EXPECT_THAT(forged(4, 1024), HasSubstr("outside of the arena"));
}

}  // namespace
}  // namespace taxon::comm
