// What must hold of regions, puts, signals and sleep in every transport.
#include <gmock/gmock.h>

#include <cstring>

#include "support/worlds.h"

namespace taxon::net {
namespace {

using task::Task;
using test::World;

class Signals : public testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Signals, testing::ValuesIn(test::all_worlds()), test::world_name);

Rank other(Transport& net) { return Rank(1 - net.rank().value()); }

/// Gives this rank's region to the other and gets its.
Task<RemoteRegion> swap_regions(Transport& net, const Region& region) {
  auto packed = region.share().pack();
  std::uint64_t size = packed.size(), other_size = 0;
  Tag tag{.operation = Operation::ShareRegions};
  RecvOp recv_size(net, other(net), tag, as_view(std::span(&other_size, 1)), DType::Int64);
  SendOp send_size(net, other(net), tag, as_const_view(std::span<const std::uint64_t>(&size, 1)),
                   DType::Int64);
  co_await send_size;
  co_await recv_size;
  tag.round = 1;
  std::vector<std::byte> in(other_size);
  RecvOp recv(net, other(net), tag, View(in.data(), in.size()), DType::UInt8);
  SendOp send(net, other(net), tag, ConstView(packed.data(), packed.size()), DType::UInt8);
  co_await send;
  co_await recv;
  co_return RemoteRegion::unpack(ConstView(in.data(), in.size()));
}

/// Nobody leaves, and frees what peers may touch, before both are here.
Task<void> meet(Transport& net, std::uint32_t unit) {
  Tag tag{.operation = Operation::Barrier, .unit = unit};
  RecvOp recv(net, other(net), tag, {}, DType::UInt8);
  SendOp send(net, other(net), tag, {}, DType::UInt8);
  co_await send;
  co_await recv;
}

TEST_P(Signals, RegionsAreZeroedAndAligned) {
  GetParam().run(1, [](Transport& net) -> Task<void> {
    for (std::size_t size : {1, 100, 1 << 20}) {
      Region region = net.allocate(size);
      EXPECT_EQ(region.bytes().size(), size);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.bytes().data()) % 64, 0u);
      for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(region.bytes().data()[i], std::byte{0});
      std::memset(region.bytes().data(), 1, size);
    }
    co_return;
  });
}

TEST_P(Signals, WhoSeesTheSignalSeesTheBytes) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    constexpr std::size_t kSlot = 100'000;
    Region region = net.allocate(3 * kSlot);
    auto swap = swap_regions(net, region);
    RemoteRegion there = co_await swap;
    std::vector<std::uint8_t> payload(kSlot);
    for (std::uint64_t round = 1; round <= 50; ++round) {
      std::size_t size = round % 3 == 0 ? kSlot : round % 3 == 1 ? 1 : 777;
      std::size_t offset = kSlot * (round % 2);
      std::fill(payload.begin(), payload.end(),
                static_cast<std::uint8_t>(round + static_cast<unsigned>(net.rank().value())));
      PutOp put(net, ConstView(reinterpret_cast<std::byte*>(payload.data()), size), &there, offset,
                {other(net), 5}, round);
      co_await put;
      std::fill(payload.begin(), payload.end(), std::uint8_t{0xee});
      AwaitSignalOp raised(net, other(net), Tag{}, 5, round);
      co_await raised;
      auto expected = static_cast<std::byte>(round + static_cast<unsigned>(other(net).value()));
      EXPECT_EQ(region.bytes().data()[offset], expected) << round;
      EXPECT_EQ(region.bytes().data()[offset + size - 1], expected) << round;
    }
    auto end = meet(net, 0);
    co_await end;
  });
}

TEST_P(Signals, RaisedAtOnceWhereMemoryIsShared) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    Region region = net.allocate(64);
    auto swap = swap_regions(net, region);
    RemoteRegion there = co_await swap;
    const View theirs = net.map(there);
    for (std::uint64_t round = 1; round <= 50; ++round) {
      const auto mark = static_cast<std::byte>(round);
      if (!theirs.empty()) std::memset(theirs.data(), static_cast<int>(round), theirs.size());
      if (theirs.empty() || !net.raise_now({other(net), 3}, round)) {
        const std::vector<std::byte> payload(64, mark);
        PutOp put(net, ConstView(payload.data(), payload.size()), &there, 0, {other(net), 3}, round);
        co_await put;
      }
      AwaitSignalOp raised(net, other(net), Tag{}, 3, round);
      co_await raised;
      EXPECT_EQ(net.signal(3), round);
      EXPECT_EQ(region.bytes().data()[63], mark);
      auto next = meet(net, static_cast<std::uint32_t>(round));
      co_await next;
    }
  });
}

TEST_P(Signals, LaterPutsDoNotOvertake) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    constexpr std::size_t kSize = 300'000;
    Region region = net.allocate(kSize + 1);
    auto swap = swap_regions(net, region);
    RemoteRegion there = co_await swap;
    std::vector<std::byte> large(kSize, std::byte{7});
    std::byte small{9};
    PutOp first(net, ConstView(large.data(), kSize), &there, 0, {other(net), 0}, 1);
    PutOp second(net, ConstView(&small, 1), &there, kSize, {other(net), 0}, 2);
    AwaitSignalOp raised(net, other(net), Tag{}, 0, 2);
    co_await raised;
    EXPECT_EQ(region.bytes().data()[kSize], std::byte{9});
    for (std::size_t i = 0; i < kSize; ++i) EXPECT_EQ(region.bytes().data()[i], std::byte{7}) << i;
    co_await first;
    co_await second;
    auto end = meet(net, 0);
    co_await end;
  });
}

TEST_P(Signals, ManyAreAwaitedAtOnce) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    EXPECT_GE(net.signals(), 1024u);
    std::vector<std::unique_ptr<Op>> ops;
    for (std::uint32_t i = 0; i < 1024; i += 3)
      ops.push_back(std::make_unique<AwaitSignalOp>(net, other(net), Tag{}, i, 2));
    for (std::uint64_t value = 1; value <= 2; ++value)
      for (std::uint32_t i = 0; i < 1024; i += 3)
        ops.push_back(
            std::make_unique<PutOp>(net, ConstView(), nullptr, 0, RemoteSignal{other(net), i}, value));
    auto all = test::finish(ops);
    co_await all;
    AwaitSignalOp past(net, other(net), Tag{}, 3, 1);
    EXPECT_TRUE(past.done());
    auto end = meet(net, 0);
    co_await end;
  });
}

TEST_P(Signals, ReachTheRankItself) {
  GetParam().run(1, [](Transport& net) -> Task<void> {
    Region region = net.allocate(64);
    RemoteRegion here = region.share();
    int value = 42;
    AwaitSignalOp raised(net, net.rank(), Tag{}, 1, 1);
    PutOp put(net, as_const_view(std::span<const int>(&value, 1)), &here, 4, {net.rank(), 1}, 1);
    co_await put;
    co_await raised;
    EXPECT_EQ(as_span<int>(region.bytes())[1], 42);
  });
}

TEST_P(Signals, MappedMemoryIsThePeersOwn) {
  bool shares = GetParam().shares_memory;
  GetParam().run(2, [shares](Transport& net) -> Task<void> {
    Region region = net.allocate(1000);
    auto swap = swap_regions(net, region);
    RemoteRegion there = co_await swap;
    View mapped = net.map(there);
    EXPECT_EQ(!mapped.empty(), shares);
    EXPECT_EQ(net.path(other(net)).shared_memory, shares);
    if (shares) {
      EXPECT_EQ(mapped.size(), 1000u);
      mapped.data()[999] = static_cast<std::byte>(50 + net.rank().value());
      PutOp tell(net, {}, nullptr, 0, {other(net), 0}, 1);
      AwaitSignalOp raised(net, other(net), Tag{}, 0, 1);
      co_await tell;
      co_await raised;
      EXPECT_EQ(region.bytes().data()[999], static_cast<std::byte>(50 + other(net).value()));
      EXPECT_EQ(net.map(there).data(), mapped.data());
    }
    auto end = meet(net, 0);
    co_await end;
  });
}

TEST_P(Signals, WakeSleepersHundredsOfTimes) {
  // The loops do not spin, so nearly every hop ends a sleep. A lost wake-up would hang.
  GetParam().run(2, [](Transport& net) -> Task<void> {
    for (std::uint64_t hop = 1; hop <= 800; ++hop) {
      bool mine = hop % 2 == static_cast<std::uint64_t>(net.rank().value());
      if (mine) {
        PutOp put(net, {}, nullptr, 0, {other(net), 2}, hop);
        co_await put;
      } else {
        AwaitSignalOp raised(net, other(net), Tag{}, 2, hop);
        co_await raised;
      }
    }
    auto end = meet(net, 0);
    co_await end;
  });
}

TEST_P(Signals, MessagesWakeSleepers) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    for (std::uint32_t hop = 0; hop < 1000; ++hop) {
      int value = 0;
      if (hop % 2 == static_cast<std::uint32_t>(net.rank().value())) {
        value = static_cast<int>(hop);
        SendOp send(net, other(net), Tag{.unit = hop}, as_view(std::span(&value, 1)), DType::Int32);
        co_await send;
      } else {
        RecvOp recv(net, other(net), Tag{.unit = hop}, as_view(std::span(&value, 1)), DType::Int32);
        co_await recv;
        EXPECT_EQ(value, static_cast<int>(hop));
      }
    }
  });
}

}  // namespace
}  // namespace taxon::net
