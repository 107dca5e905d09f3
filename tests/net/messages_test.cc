// What must hold of messages in every transport.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "support/worlds.h"

namespace taxon::net {
namespace {

using task::Task;
using test::World;

class Messages : public testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Messages, testing::ValuesIn(test::all_worlds()), test::world_name);

Rank next(Transport& net) { return Rank((net.rank().value() + 1) % net.world_size()); }
Rank previous(Transport& net) { return Rank((net.rank().value() + net.world_size() - 1) % net.world_size()); }

/// Bytes that only this rank sends under this tag.
std::vector<std::byte> pattern(std::size_t size, Rank source, const Tag& tag) {
  std::vector<std::byte> bytes(size);
  std::uint64_t word = static_cast<std::uint64_t>(source.value()) * 0x9e3779b97f4a7c15ULL + tag.unit * 31 +
                       tag.sequence * 0x1000003ULL + 1;
  for (std::size_t i = 0; i < size; i += sizeof word) {
    word = word * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(bytes.data() + i, &word, std::min(sizeof word, size - i));
  }
  return bytes;
}
View view_of(std::vector<std::byte>& bytes) { return View(bytes.data(), bytes.size()); }

/// Everybody passes `size` bytes on, the receive posted before or after the message is likely to come.
enum class Post { First, Late };
Task<void> pass_on(Transport& net, std::size_t size, Post post) {
  Tag tag{.unit = static_cast<std::uint32_t>(size), .sequence = post == Post::First ? 1u : 2u};
  auto out = pattern(size, net.rank(), tag);
  std::vector<std::byte> in(size);
  if (post == Post::First) {
    RecvOp recv(net, previous(net), tag, view_of(in), DType::UInt8);
    SendOp send(net, next(net), tag, view_of(out), DType::UInt8);
    co_await send;
    co_await recv;
  } else {
    SendOp send(net, next(net), tag, view_of(out), DType::UInt8);
    task::SleepUntil pause(net.executor(), net.pending(),
                           net.executor().now() + std::chrono::milliseconds(2));
    co_await pause;
    RecvOp recv(net, previous(net), tag, view_of(in), DType::UInt8);
    co_await send;
    co_await recv;
  }
  EXPECT_TRUE(in == pattern(size, previous(net), tag)) << size;
}

TEST_P(Messages, CarryEverySize) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    for (std::size_t size : {0, 1, 7, 64, 4000, 7999, 8000, 8001, 61439, 61440, 61441, 1000003}) {
      auto first = pass_on(net, size, Post::First);
      co_await first;
      auto late = pass_on(net, size, Post::Late);
      co_await late;
    }
  });
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kMuch = 8 << 20;  // each word of which a sanitizer watches
#else
constexpr std::size_t kMuch = 64 << 20;
#endif

TEST_P(Messages, CarryMuchBothWays) {
  GetParam().run(2, [](Transport& net) -> Task<void> { return pass_on(net, kMuch, Post::First); });
}

TEST_P(Messages, GoRoundRingsOfEverySize) {
  for (int n : {1, 3, 5})
    GetParam().run(n, [](Transport& net) -> Task<void> { return pass_on(net, 100'000, Post::First); });
}

TEST_P(Messages, MatchByTagNotByArrival) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    constexpr std::uint32_t kMany = 200;
    std::vector<std::vector<std::byte>> in(kMany), out(kMany);
    std::vector<std::unique_ptr<Op>> ops;
    for (std::uint32_t i = 0; i < kMany; ++i) {
      Tag tag{.group = 9, .unit = i};
      out[i] = pattern(i * 37, net.rank(), tag);
      ops.push_back(std::make_unique<SendOp>(net, next(net), tag, view_of(out[i]), DType::UInt8));
    }
    for (std::uint32_t i = kMany; i-- > 0;) {
      in[i].resize(i * 37);
      ops.push_back(std::make_unique<RecvOp>(net, previous(net), Tag{.group = 9, .unit = i}, view_of(in[i]),
                                             DType::UInt8));
    }
    auto all = test::finish(ops);
    co_await all;
    for (std::uint32_t i = 0; i < kMany; ++i)
      EXPECT_TRUE(in[i] == pattern(i * 37, previous(net), Tag{.group = 9, .unit = i})) << i;
  });
}

TEST_P(Messages, OfOneTagKeepTheirOrder) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    // Alternating sizes: no later small one overtakes an earlier large one.
    constexpr std::uint64_t kMany = 100;
    std::vector<std::vector<std::uint64_t>> out, in;
    for (std::uint64_t i = 0; i < kMany; ++i) {
      out.emplace_back(i % 3 == 0 ? 30'000 : 1, i);
      in.emplace_back(out.back().size());
    }
    std::vector<std::unique_ptr<Op>> ops;
    for (auto& payload : out)
      ops.push_back(
          std::make_unique<SendOp>(net, next(net), Tag{}, as_view(std::span(payload)), DType::Int64));
    for (auto& payload : in)
      ops.push_back(
          std::make_unique<RecvOp>(net, previous(net), Tag{}, as_view(std::span(payload)), DType::Int64));
    auto all = test::finish(ops);
    co_await all;
    EXPECT_EQ(in, out);
  });
}

TEST_P(Messages, ReachTheSender) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    int out = 5 + net.rank().value(), early = 0, late = 0;
    RecvOp first(net, net.rank(), Tag{}, as_view(std::span(&early, 1)), DType::Int32);
    SendOp send(net, net.rank(), Tag{}, as_const_view(std::span<const int>(&out, 1)), DType::Int32);
    SendOp again(net, net.rank(), Tag{}, as_const_view(std::span<const int>(&out, 1)), DType::Int32);
    RecvOp second(net, net.rank(), Tag{}, as_view(std::span(&late, 1)), DType::Int32);
    co_await send;
    co_await again;
    co_await first;
    co_await second;
    EXPECT_EQ(early, out);
    EXPECT_EQ(late, out);
  });
}

TEST_P(Messages, PayloadMayBeOverwrittenOnceTheSendIsDone) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    std::vector<std::byte> buffer;
    if (net.rank() == Rank(0)) {
      for (std::uint32_t i = 0; i < 20; ++i) {
        Tag tag{.unit = i};
        buffer = pattern(200'000, net.rank(), tag);
        SendOp send(net, Rank(1), tag, view_of(buffer), DType::UInt8);
        co_await send;
        std::fill(buffer.begin(), buffer.end(), std::byte{0xee});
      }
    } else {
      for (std::uint32_t i = 0; i < 20; ++i) {
        Tag tag{.unit = i};
        buffer.assign(200'000, std::byte{0});
        RecvOp recv(net, Rank(0), tag, view_of(buffer), DType::UInt8);
        co_await recv;
        EXPECT_TRUE(buffer == pattern(200'000, Rank(0), tag)) << i;
      }
    }
  });
}

TEST_P(Messages, OfWrongShapeNameBothSides) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    std::vector<float> out(30'000, 1.0f);
    std::vector<float> in(29'999, 0.0f), untouched = in;
    std::vector<double> doubles(15'000);
    Tag length{.operation = Operation::AllReduce, .unit = 3, .sequence = 120}, type{.unit = 4};
    SendOp first(net, next(net), length, as_view(std::span(out)), DType::Float32);
    SendOp second(net, next(net), type, as_view(std::span(out)), DType::Float32);
    RecvOp shorter(net, previous(net), length, as_view(std::span(in)), DType::Float32);
    RecvOp typed(net, previous(net), type, as_view(std::span(doubles)), DType::Float64);
    co_await first;
    co_await second;
    std::string message, other;
    try {
      co_await shorter;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Mismatch);
      EXPECT_EQ(error.context().rank, previous(net));
      message = error.what();
    }
    try {
      co_await typed;
    } catch (const Error& error) {
      other = error.what();
    }
    EXPECT_THAT(message, testing::HasSubstr("30000 x float32"));
    EXPECT_THAT(message, testing::HasSubstr("29999 x float32"));
    EXPECT_THAT(message, testing::HasSubstr("all_reduce, unit 3, use 120"));
    EXPECT_THAT(other, testing::HasSubstr("15000 x float64"));
    EXPECT_EQ(in, untouched);
    auto after = pass_on(net, 1000, Post::First);  // one mismatch does not spoil the next message
    co_await after;
  });
}

TEST_P(Messages, AreCounted) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    std::uint64_t messages = net.traffic().messages_sent, sent = net.traffic().bytes_sent,
                  received = net.traffic().bytes_received;
    for (std::size_t size : {0, 1000, 100'000}) {
      auto pass = pass_on(net, size, Post::First);
      co_await pass;
    }
    net.count_stored(5);
    EXPECT_EQ(net.traffic().messages_sent - messages, 3u);
    EXPECT_EQ(net.traffic().bytes_sent - sent, 101'005u);
    EXPECT_EQ(net.traffic().bytes_received - received, 101'000u);
  });
}

TEST_P(Messages, SurviveRandomTraffic) {
  GetParam().run(4, [](Transport& net) -> Task<void> {
    // Every rank derives the same list of messages and plays its part in it, receives in an order of its own.
    struct Planned {
      Rank from, to;
      Tag tag;
      std::size_t size;
    };
    std::vector<Planned> plan;
    Rng rng(11, "random traffic");
    for (std::uint32_t i = 0; i < 400; ++i)
      plan.push_back({Rank(static_cast<int>(rng.below(4))), Rank(static_cast<int>(rng.below(4))),
                      Tag{.unit = i}, rng.below(5) == 0 ? rng.below(300'000) : rng.below(300)});
    std::vector<std::vector<std::byte>> buffers(plan.size());
    std::vector<std::unique_ptr<Op>> ops;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      std::size_t back = plan.size() - 1 - i;
      if (plan[back].to == net.rank() && plan[back].from != net.rank()) {
        buffers[back].resize(plan[back].size);
        ops.push_back(std::make_unique<RecvOp>(net, plan[back].from, plan[back].tag, view_of(buffers[back]),
                                               DType::UInt8));
      }
      if (plan[i].from == net.rank() && plan[i].to != net.rank()) {
        buffers[i] = pattern(plan[i].size, net.rank(), plan[i].tag);
        ops.push_back(
            std::make_unique<SendOp>(net, plan[i].to, plan[i].tag, view_of(buffers[i]), DType::UInt8));
      }
    }
    auto all = test::finish(ops);
    co_await all;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].to != net.rank() || plan[i].from == net.rank()) continue;
      EXPECT_TRUE(buffers[i] == pattern(plan[i].size, plan[i].from, plan[i].tag)) << i;
    }
  });
}

}  // namespace
}  // namespace taxon::net
