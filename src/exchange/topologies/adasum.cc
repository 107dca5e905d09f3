#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "comm/in_flight.h"
#include "comm/kernels.h"
#include "comm/scratch.h"
#include "comm/trace_scope.h"
#include "exchange/levels/topology.h"
#include "plan/legality.h"

namespace taxon::exchange {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

struct Dots {
  double aa = 0, bb = 0, ab = 0;
  /// What the vector counts whose square is `own`.
  double share(double own) const { return own > 0 ? 1 - ab / (2 * own) : 1; }
};

template <class Body>
void for_floats(DType type, Body&& body) {
  dispatch(type, [&](auto zero) {
    if constexpr (std::is_floating_point_v<decltype(zero)>) body(zero);
  });
}

template <class T>
void add_dots(std::span<const T> a, std::span<const T> b, Dots* dots) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    dots->aa += x * x;
    dots->bb += y * y;
    dots->ab += x * y;
  }
}

struct Pair {
  View a, b;
};
/// Of two equally long views, cut so that the communication thread polls between the kernels made of them.
std::vector<Pair> pieces_of(View a, View b) {
  std::vector<Pair> pieces;
  for (std::size_t begin = 0; begin < a.size(); begin += kPieceBytes) {
    const std::size_t size = std::min(kPieceBytes, a.size() - begin);
    pieces.push_back({a.slice(begin, size), b.slice(begin, size)});
  }
  return pieces;
}

template <class First, class Second>
task::Task<void> await_both(First* first, Second* second) {
  co_await *first;
  co_await *second;
}

class Adasum final : public Topology {
 public:
  explicit Adasum(comm::Communicator& group) : group_(group) {
    if (!std::has_single_bit(static_cast<unsigned>(group.size())))
      throw Error(ErrorKind::Usage,
                  fmt::format("topology adasum needs a power of two of members, and there are {}; use "
                              "all_reduce, or other nodes",
                              group.size()));
  }

  Range owned(Range range) const override { return range; }

  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override {
    const View data = values.bytes(transfer.range);
    comm::TraceScope recorded(group_, "adasum", {data, values.type(), transfer.unit, transfer.lane});
    net::Tag tag = group_.begin(net::Operation::Reduce, transfer.unit, transfer.lane);
    comm::Scratch scratch(group_.scratch(), data.size(), data);
    for (int distance = 1; distance < group_.size(); distance *= 2) {
      auto swapping = swap(tag, values.type(), group_.rank() ^ distance, {data, scratch.bytes()});
      co_await swapping;
      ++tag.round;
      // The same two vectors in the same order at both, and so the same bits.
      const bool first = (group_.rank() & distance) == 0;
      const bool last = distance * 2 == group_.size();
      auto combining =
          combine(values.type(), first ? Pair{data, scratch.bytes()} : Pair{scratch.bytes(), data}, data,
                  last ? group_.size() : 1);
      co_await combining;
    }
    co_return group_.size();
  }

  task::Task<void> spread(LevelTransfer, const tensor::Arena&) override { co_return; }
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }

 private:
  task::Task<void> swap(net::Tag tag, DType type, int member, Pair views) {
    net::Transport& transport = group_.runtime().transport;
    const Rank peer = group_.global(member);
    net::RecvOp takes(transport, peer, tag, views.b, type);
    net::SendOp gives(transport, peer, tag, views.a, type);
    auto both = await_both(&takes, &gives);
    co_await comm::settle(group_.runtime().pending(), std::move(both));
  }

  /// out := scale * A(vectors.a, vectors.b); `out` is one of them.
  task::Task<void> combine(DType type, Pair vectors, View out, double scale) {
    Dots dots;
    for (Pair piece : pieces_of(vectors.a, vectors.b)) {
      tensor::Kernel kernel{"dot products",
                            {6.0 * static_cast<double>(piece.a.size() / size_of(type)), 2 * piece.a.size()},
                            [&dots, piece, type](tensor::Milestones&) {
                              for_floats(type, [&](auto zero) {
                                using T = const decltype(zero);
                                add_dots<decltype(zero)>(as_span<T>(ConstView(piece.a)),
                                                         as_span<T>(ConstView(piece.b)), &dots);
                              });
                            }};
      co_await run(std::move(kernel));
    }
    std::size_t begin = 0;
    for (Pair piece : pieces_of(vectors.a, vectors.b)) {
      const View to = out.slice(begin, piece.a.size());
      begin += piece.a.size();
      tensor::Kernel kernel{"adasum",
                            {3.0 * static_cast<double>(piece.a.size() / size_of(type)), 3 * piece.a.size()},
                            [&dots, piece, to, type, scale](tensor::Milestones&) {
                              for_floats(type, [&](auto zero) {
                                using T = decltype(zero);
                                auto a = as_span<T>(piece.a), b = as_span<T>(piece.b), o = as_span<T>(to);
                                const T of_a = T(scale * dots.share(dots.aa));
                                const T of_b = T(scale * dots.share(dots.bb));
                                for (std::size_t i = 0; i < o.size(); ++i) o[i] = of_a * a[i] + of_b * b[i];
                              });
                            }};
      co_await run(std::move(kernel));
    }
  }

  task::Task<void> run(tensor::Kernel kernel) {
    comm::ExchangeKernel work(group_, std::move(kernel));
    co_await work.finished();
  }

  comm::Communicator& group_;
};

std::unique_ptr<Topology> make(comm::Communicator& group, TopologyContext) {
  return std::make_unique<Adasum>(group);
}

/// 0: known when the ranks have met.
int members_at(const plan::LegalityInput& c, plan::LevelGroup group) {
  const int node = c.plan.mesh.node;
  if (group == plan::LevelGroup::Data) return c.world_size;
  if (node == 0) return 0;
  return group == plan::LevelGroup::Node ? node : c.world_size / node;
}

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels", "topology adasum needs rule sum, since it combines gradients",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       return plan::unless(level.rule == "sum", "rule is " + level.rule);
     }},
    {"exchange.levels", "topology adasum needs a power of two of ranks that meet",
     [](const plan::LegalityInput& c, const plan::LevelPlan& level) {
       const int size = members_at(c, level.group);
       return plan::unless(size == 0 || std::has_single_bit(static_cast<unsigned>(size)),
                           fmt::format("{} do at {}", size, level.group));
     }},
};

}  // namespace

/// Gradients are combined by how much they agree (Adasum: Maleki et al., MLSys 2021), two and two:
///   A(a, b) = (1 - a.b / 2 a.a) a + (1 - a.b / 2 b.b) b,
/// the sum of what is orthogonal and the mean of what is parallel. Contributions are parts of a mean, each a
/// member's gradient over the number of members; the result is A of the gradients themselves. Dot products
/// are over a unit: a bucket, or what inner levels own of it. REQUIRES: a power of two of members; otherwise
/// the constructor throws Error{Usage}.
TopologyRow adasum() {
  return {.name = "adasum",
          .make = make,
          .reduce = net::Operation::User,
          .spread = net::Operation::User,
          .owned = [](std::size_t count, int) { return count; },
          .sent =
              [](const plan::LevelPlan&, std::size_t bytes, const LevelShape& shape, const Extensions&) {
                return static_cast<double>(bytes) * std::bit_width(static_cast<unsigned>(shape.size - 1));
              },
          .sentence = "everybody owns everything; gradients are combined by how much they agree",
          .optimisation = "replicated",
          .rules = kRules};
}

}  // namespace taxon::exchange
