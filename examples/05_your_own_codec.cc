// A codec of one's own: neighbours travel as their mean, at half the bytes. Its wires are plain numbers whose
// sums make sense, so any all-reduce carries them; what a mean lacks stays in the memory of errors.
#include <taxon/codec.h>
#include <taxon/comm.h>

#include <cmath>
#include <iostream>
#include <vector>

using namespace taxon;

class PairMeans final : public codec::Codec {
 public:
  std::span<const codec::Round> rounds() const override { return {&kRound, 1}; }
  codec::ElementCost cost() const override { return {2, 6, 1, 6}; }
  std::size_t wire_bytes(int, const codec::Extent& e) const override {
    return (e.count + 1) / 2 * sizeof(float);
  }
  std::size_t scratch_bytes(const codec::Extent&) const override { return 0; }
  bool keeps_zeros() const override { return false; }
  bool encode(int, std::span<float> values, View wire, codec::Residual residual,
              const codec::CodecContext& context) const override {
    auto means = as_span<float>(wire);
    if (!codec::all_finite(values, context.isa)) return codec::fill_not_finite(means), false;
    for (std::size_t i = 0; i < values.size(); i += 2) {
      const bool pair = i + 1 < values.size();
      means[i / 2] = pair ? (values[i] + values[i + 1]) / 2 : values[i];
      for (std::size_t j = i; residual == codec::Residual::Keep && j <= i + pair; ++j)
        values[j] -= means[i / 2];
    }
    return true;
  }
  void decode(ConstView wire, std::span<float> values, codec::Into into,
              const codec::CodecContext&) const override {
    auto means = as_span<float>(wire);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = means[i / 2] + (into == codec::Into::Add ? values[i] : 0);
  }

 private:
  static constexpr codec::Round kRound{codec::Algebra::Linear, DType::Float32};
};

struct Books {
  double pushed = 0, applied = 0, kept = 0;  // over all values, steps and ranks
};

task::Task<void> rank(net::Transport* transport, Books* books) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < runtime.world_size(); ++r) everybody.push_back(Rank(r));
  comm::Communicator world(runtime, "world", everybody);
  co_await world.establish();

  const PairMeans codec;
  const codec::Feedback feedback(codec, {});
  std::vector<float> gradient(1001), errors(gradient.size());
  for (int step = 0; step < 10; ++step) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
      books->pushed += gradient[i] =
          static_cast<float>((i * i + 7 * i) % 13) * (runtime.rank().value() + step);
    comm::Call call{as_view(std::span(gradient)), DType::Float32};
    exchange::CompressedReduce trip{world, codec, feedback, call, true, as_view(std::span(errors))};
    co_await exchange::aggregation_of(codec).run(trip);  // gradient: the sum of what all ranks sent
    if (runtime.rank() == Rank(0))
      for (float sum : gradient) books->applied += sum;
  }
  for (float error : errors) books->kept += error;
}

task::Task<void> run_all(net::LoopbackWorld* world, task::PendingOps* waits, Books* books) {
  task::Scope ranks(*waits);
  for (int r = 0; r < world->size(); ++r) ranks.spawn(rank(&world->transport(Rank(r)), books));
  co_await ranks.join();
}

int main() {
  task::PollLoop loop;
  net::LoopbackWorld world(loop, 4);
  task::PendingOps waits;
  Books books;
  auto all = run_all(&world, &waits, &books);
  loop.run(std::move(all));
  const bool right = std::abs(books.applied + books.kept - books.pushed) < 1e-4 * books.pushed;
  std::cout << (right ? "nothing was lost on its way\n" : "something was LOST on its way\n");
  return right ? 0 : 1;
}
