// What must hold of tensor channels in every transport.
#include <gmock/gmock.h>

#include "comm/tensor_ends.h"
#include "support/errors.h"

namespace taxon::comm {
namespace {

using task::Task;
using test::fill_tensor;
using test::is_tensor;
using test::TensorPlace;
using testing::HasSubstr;

class Tensors : public testing::TestWithParam<test::World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Tensors, testing::ValuesIn(test::all_worlds()), test::world_name);

/// `count` tensors of one shape from rank 0 to rank 1. The receiver keeps up to `kept` of them and gives back
/// the youngest first.
struct StaticRun {
  TensorRoute route{};
  TensorShape shape;
  TensorOptions options;
  std::uint64_t count = 20;
  std::uint64_t kept = 1;
};

Task<void> send_static(Communicator* group, StaticRun run) {
  auto opening = StaticSender::open(*group, run.route, run.shape, run.options);
  auto sender = co_await opening;
  std::vector<std::byte> memory(run.shape.bytes());
  const View tensor(memory.data(), memory.size());
  for (std::uint64_t number = 1; number <= run.count; ++number) {
    fill_tensor(tensor, number);
    auto sent = sender->send(tensor);
    co_await sent;
  }
  fill_tensor(tensor, 0);
  auto closed = sender->close();
  co_await closed;
  EXPECT_EQ(sender->counters().tensors, run.count);
  EXPECT_EQ(sender->counters().bytes, run.count * memory.size());
}

Task<void> receive_static(Communicator* group, TensorArena* arena, StaticRun run) {
  auto opening = StaticReceiver::open(*group, *arena, run.route, run.shape, run.options);
  auto receiver = co_await opening;
  std::vector<ReceivedTensor> held;
  for (std::uint64_t number = 1; number <= run.count; ++number) {
    auto receiving = receiver->receive();
    ReceivedTensor tensor = co_await receiving;
    held.push_back(std::move(tensor));
    EXPECT_EQ(held.back().sequence(), number);
    EXPECT_EQ(held.back().shape(), run.shape);
    if (held.size() < run.kept && number < run.count) continue;
    while (!held.empty()) {
      EXPECT_TRUE(is_tensor(held.back().bytes(), held.back().sequence())) << held.back().sequence();
      auto released = receiver->release(std::move(held.back()));
      held.pop_back();
      co_await released;
    }
  }
  auto closed = receiver->close();
  co_await closed;
  EXPECT_EQ(receiver->counters().tensors, run.count);
}

Task<void> run_static(net::Transport& net, std::vector<StaticRun> runs) {
  TensorPlace place(net);
  for (const StaticRun& run : runs) {
    auto mine = place.is(run.route.sender) ? send_static(&place.group, run)
                                           : receive_static(&place.group, &place.arena, run);
    co_await mine;
  }
  EXPECT_EQ(place.arena.used(), 0u);
}

TEST_P(Tensors, OfOneShapeArriveWhereTheyAreUsed) {
  Rng rng(1, "shapes");
  std::vector<StaticRun> runs;
  for (int i = 0; i < 12; ++i) {
    StaticRun run{.shape = test::random_shape(rng, 20000)};
    run.options.depth = static_cast<std::uint32_t>(1 + i % 4);
    run.options.integrity = i % 3 == 0 ? Integrity::Checked : Integrity::Fast;
    run.kept = 1 + static_cast<std::uint64_t>(i) % run.options.depth;
    runs.push_back(run);
  }
  GetParam().run(2, [&](net::Transport& net) { return run_static(net, runs); });
}

#if TAXON_TEST_UCX && !defined(TAXON_TEST_VIRTUAL)
/// Each whole and in its turn, over a channel whose places are used thousands of times; where every message
/// is a call of the system, a tenth as many.
TEST(TensorsBetweenProcesses, AMillionArriveOneAfterTheOther) {
  for (const auto& [transport, count] : {std::pair("shm", 1'000'000), std::pair("tcp", 100'000)})
    test::run_ranks_as_processes(
        2,
        [count = static_cast<std::uint64_t>(count)](net::Transport& net) {
          const StaticRun many{{0, 1}, TensorShape::of(DType::Int64, {8}), {.depth = 64}, count};
          return run_static(net, {many});
        },
        {.transport = transport});
}
#endif

/// Both directions at once over one unit, and a second unit beside it.
Task<void> cross(net::Transport& net) {
  TensorPlace place(net);
  const TensorShape shape = TensorShape::of(DType::Float32, {3000});
  task::Scope scope(net.pending());
  for (std::uint32_t unit = 0; unit < 2; ++unit)
    for (int sender = 0; sender < 2; ++sender) {
      const StaticRun run{.route = {sender, 1 - sender, unit}, .shape = shape, .count = 50};
      scope.spawn(place.is(sender) ? send_static(&place.group, run)
                                   : receive_static(&place.group, &place.arena, run));
    }
  co_await scope.join();
}

TEST_P(Tensors, ChannelsDoNotDisturbEachOther) { GetParam().run(2, cross); }

/// Tensors of random shapes from rank 0 to rank 1, in arenas that hold only a few of them.
struct DynamicRun {
  TensorOptions options;
  TensorRead read = TensorRead::InPlace;
  std::uint64_t count = 150;
  std::size_t arena = 256 << 10;
};

Task<void> send_dynamic(TensorPlace* place, DynamicRun run) {
  auto opening = DynamicSender::open(place->group, place->arena, {}, run.options);
  auto sender = co_await opening;
  Rng rng(5, "shapes");
  for (std::uint64_t number = 1; number <= run.count; ++number) {
    const TensorShape shape = test::random_shape(rng, 5000);
    if (number % 3 == 0) {
      std::vector<std::byte> elsewhere(shape.bytes());
      fill_tensor(View(elsewhere.data(), elsewhere.size()), number);
      auto sent = sender->send_copy(ConstView(elsewhere.data(), elsewhere.size()), shape);
      co_await sent;
      continue;
    }
    auto allocating = place->arena.allocate(shape.bytes(), "a test's tensor");
    TensorBlock block = co_await allocating;
    fill_tensor(block.bytes(), number);
    auto sent = sender->send(std::move(block), shape);
    co_await sent;
  }
  auto closed = sender->close();
  co_await closed;
  EXPECT_EQ(sender->outstanding(), 0u);
}

Task<void> receive_dynamic(TensorPlace* place, DynamicRun run, bool shared) {
  auto opening = DynamicReceiver::open(place->group, place->arena, {}, run.options, run.read);
  auto receiver = co_await opening;
  EXPECT_EQ(receiver->path(), !shared                           ? TensorPath::Messages
                              : run.read == TensorRead::InPlace ? TensorPath::ReadInPlace
                                                                : TensorPath::ReadCopied);
  Rng rng(5, "shapes");
  std::vector<ReceivedTensor> held;
  for (std::uint64_t number = 1; number <= run.count; ++number) {
    const TensorShape shape = test::random_shape(rng, 5000);
    auto receiving = receiver->receive();
    ReceivedTensor tensor = co_await receiving;
    held.push_back(std::move(tensor));
    EXPECT_EQ(held.back().shape(), shape) << number;
    if (held.size() < run.options.depth && number < run.count) continue;
    while (!held.empty()) {
      EXPECT_TRUE(is_tensor(held.back().bytes(), held.back().sequence())) << held.back().sequence();
      auto released = receiver->release(std::move(held.back()));
      held.pop_back();
      co_await released;
    }
  }
  auto closed = receiver->close();
  co_await closed;
  EXPECT_EQ(receiver->counters().copied,
            shared && run.read == TensorRead::InPlace ? 0 : receiver->counters().bytes);
}

Task<void> run_dynamic(net::Transport& net, std::vector<DynamicRun> runs, bool shared) {
  for (const DynamicRun& run : runs) {
    TensorPlace place(net, {.bytes = run.arena, .integrity = run.options.integrity});
    auto mine = place.is(0) ? send_dynamic(&place, run) : receive_dynamic(&place, run, shared);
    co_await mine;
    EXPECT_EQ(place.arena.used(), 0u) << place.arena.map();
    auto met = test::meet(place.group);
    co_await met;
  }
}

TEST_P(Tensors, OfAnyShapeArrive) {
  std::vector<DynamicRun> runs;
  for (TensorRead read : {TensorRead::InPlace, TensorRead::Copied})
    for (std::uint32_t depth : {1U, 3U})
      runs.push_back({.options = {depth, depth == 1 ? Integrity::Checked : Integrity::Fast}, .read = read});
  const bool shared = GetParam().shares_memory;
  GetParam().run(2, [&](net::Transport& net) { return run_dynamic(net, runs, shared); });
}

/// One tensor goes back and forth. The loops do not spin, so nearly every hop ends a sleep.
Task<void> play(net::Transport& net) {
  TensorPlace place(net);
  const TensorShape shape = TensorShape::of(DType::Int64, {8});
  const int own = place.group.rank();
  std::unique_ptr<StaticSender> sender;
  std::unique_ptr<StaticReceiver> receiver;
  for (int from = 0; from < 2; ++from) {
    if (own == from) {
      auto opening = StaticSender::open(place.group, {from, 1 - from}, shape, {});
      sender = co_await opening;
    } else {
      auto opening = StaticReceiver::open(place.group, place.arena, {from, 1 - from}, shape, {});
      receiver = co_await opening;
    }
  }
  std::array<std::int64_t, 8> ball{};
  for (int hop = 0; hop < 300; ++hop) {
    if (hop % 2 == own) {
      ball.fill(ball[0] + 1);
      auto sent = sender->send(as_view(std::span<std::int64_t>(ball)));
      co_await sent;
    } else {
      auto receiving = receiver->receive();
      ReceivedTensor tensor = co_await receiving;
      std::memcpy(ball.data(), tensor.bytes().data(), sizeof ball);
      auto released = receiver->release(std::move(tensor));
      co_await released;
      EXPECT_EQ(ball[0], hop + 1);
      EXPECT_EQ(ball[7], hop + 1);
    }
  }
  for (int from = 0; from < 2; ++from) {
    auto closed = own == from ? sender->close() : receiver->close();
    co_await closed;
  }
}

TEST_P(Tensors, WakeSleepersHundredsOfTimes) { GetParam().run(2, play); }

/// What a rank saw when the two opened ends that do not fit.
Task<void> disagree(net::Transport& net, TensorShape second, TensorOptions options) {
  TensorPlace place(net);
  const TensorShape first = TensorShape::of(DType::Float32, {5, 7});
  std::exception_ptr seen;
  try {
    if (place.is(0)) {
      auto opening = StaticSender::open(place.group, {}, first, {});
      co_await opening;
    } else {
      auto opening = StaticReceiver::open(place.group, place.arena, {}, second, options);
      co_await opening;
    }
  } catch (...) {
    seen = std::current_exception();
  }
  EXPECT_EQ(test::kind_of(seen), ErrorKind::Mismatch);
  EXPECT_THAT(test::message_of(seen), HasSubstr("rank 0 to rank 1, unit 0"));
}

TEST_P(Tensors, EndsThatDisagreeAreRefused) {
  GetParam().run(2, [](net::Transport& net) {
    return disagree(net, TensorShape::of(DType::Float32, {7, 5}), {});
  });
  GetParam().run(2, [](net::Transport& net) {
    return disagree(net, TensorShape::of(DType::Float32, {5, 7}), {.depth = 3});
  });
}

/// The channel says which way the bytes go.
Task<void> describe(net::Transport& net, bool shared) {
  TensorPlace place(net);
  const TensorShape shape = TensorShape::of(DType::Float32, {4});
  const std::string expected = shared ? "written into the receiver's memory" : "messages";
  if (place.is(0)) {
    auto opening = StaticSender::open(place.group, {}, shape, {});
    auto sender = co_await opening;
    EXPECT_THAT(sender->describe(), HasSubstr("rank 0 to rank 1, unit 0: " + expected));
    EXPECT_THAT(sender->describe(), HasSubstr(net.path(Rank(1)).name));
    auto wrong = sender->send(ConstView());
    std::exception_ptr refused;
    try {
      co_await wrong;
    } catch (...) {
      refused = std::current_exception();
    }
    EXPECT_EQ(test::kind_of(refused), ErrorKind::Mismatch);
  } else {
    auto opening = StaticReceiver::open(place.group, place.arena, {}, shape, {});
    auto receiver = co_await opening;
    EXPECT_THAT(receiver->describe(), HasSubstr(expected));
  }
  auto met = test::meet(place.group);
  co_await met;
}

TEST_P(Tensors, SayWhichWayTheyGo) {
  const bool shared = GetParam().shares_memory;
  GetParam().run(2, [shared](net::Transport& net) { return describe(net, shared); });
}

/// Writes into another rank's block by its value, which came as a message; wrong bounds are refused before
/// anything is sent.
Task<void> write_remotely(net::Transport& net, bool shared) {
  TensorPlace place(net);
  const Rank peer(1 - net.rank().value());
  const std::uint32_t signal = net.allot_signals(1);
  auto allocating = place.arena.allocate(1000, "written by the peer");
  TensorBlock block = co_await allocating;
  RemoteBlock mine = block.remote(), theirs;
  auto arena_bytes = place.arena.share().pack();
  auto swapping = place.group.gather(place.group.begin(net::Operation::User, 0),
                                     ConstView(reinterpret_cast<std::byte*>(&mine), sizeof mine));
  auto blocks = co_await swapping;
  std::memcpy(&theirs, blocks.data() + static_cast<std::size_t>(peer.value()) * sizeof theirs, sizeof theirs);
  auto swapping_arenas = place.group.gather(place.group.begin(net::Operation::User, 0),
                                            ConstView(arena_bytes.data(), arena_bytes.size()));
  auto arenas = co_await swapping_arenas;
  const std::size_t size = arena_bytes.size();
  const RemoteArena there =
      RemoteArena::unpack(ConstView(arenas.data() + static_cast<std::size_t>(peer.value()) * size, size));

  std::vector<std::byte> payload(100, static_cast<std::byte>(40 + net.rank().value()));
  const ConstView bytes(payload.data(), payload.size());
  for (std::size_t offset : {std::size_t{901}, std::size_t{1000}, ~std::size_t{0}})
    EXPECT_THROW(write_block(net, there, {theirs, offset, {peer, signal}, 1}, bytes), Error) << offset;
  RemoteBlock forged = theirs;
  forged.offset = there.payload.size - 50;
  EXPECT_THROW(write_block(net, there, {forged, 0, {peer, signal}, 1}, bytes), Error);
  forged = theirs;
  forged.index = there.blocks;
  EXPECT_THROW(write_block(net, there, {forged, 0, {peer, signal}, 1}, bytes), Error);

  net::PutOp write = write_block(net, there, {theirs, 900, {peer, signal}, 1}, bytes);
  co_await write;
  net::AwaitSignalOp written(net, peer, net::Tag{}, signal, 1);
  co_await written;
  EXPECT_EQ(block.bytes().data()[900], static_cast<std::byte>(40 + peer.value()));
  EXPECT_EQ(block.bytes().data()[999], static_cast<std::byte>(40 + peer.value()));

  MappedArena mapped(net, there);
  EXPECT_EQ(static_cast<bool>(mapped), shared);
  if (shared) {
    EXPECT_EQ(mapped.at(theirs).size(), 1000u);
    EXPECT_THROW(mapped.at(forged), Error);
  }
  auto met = test::meet(place.group);
  co_await met;
  block = {};  // given up: whoever kept its value notices
  auto met_again = test::meet(place.group);
  co_await met_again;
  if (shared) {
    EXPECT_FALSE(mapped.still_good(theirs));
    EXPECT_THROW(mapped.at(theirs), Error);
  }
  auto over = test::meet(place.group);
  co_await over;
}

TEST_P(Tensors, RemoteBlocksAreValues) {
  const bool shared = GetParam().shares_memory;
  GetParam().run(2, [shared](net::Transport& net) { return write_remotely(net, shared); });
}

}  // namespace
}  // namespace taxon::comm
