#include "net/loopback/loopback.h"

#include <gmock/gmock.h>

#include <numeric>

#include "support/ranks.h"

namespace taxon::net {
namespace {

using task::Task;
using test::run_ranks;

TEST(Loopback, SwapsNumbers) {
  run_ranks(2, [](Transport& net) -> Task<void> {
    Rank peer(1 - net.rank().value());
    std::vector<float> out(3, static_cast<float>(net.rank().value())), in(3, -1.0f);
    RecvOp recv(net, peer, Tag{}, as_view(std::span(in)), DType::Float32);
    SendOp send(net, peer, Tag{}, as_view(std::span(out)), DType::Float32);
    co_await send;
    co_await recv;
    EXPECT_THAT(in, testing::Each(static_cast<float>(peer.value())));
  });
}

}  // namespace
}  // namespace taxon::net
