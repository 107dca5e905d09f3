// Open MPI's MPI_Allreduce. Start with mpirun; variants: in_place, out_of_place.
#include <mpi.h>

#include "side/side.h"

namespace taxon::bench {
namespace {

class OpenMpiAllReduce final : public AllReduce {
 public:
  Buffers prepare(std::size_t elements, const std::string& variant) override {
    if (input_.size() != elements) {
      input_ = std::vector<float>(elements);
      output_ = std::vector<float>(elements);
    }
    in_place_ = variant == "in_place";
    return {.input = input_.data(), .output = in_place_ ? input_.data() : output_.data()};
  }

  double run(int iterations) override {
    const int count = static_cast<int>(input_.size());
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) {
      if (in_place_) {
        MPI_Allreduce(MPI_IN_PLACE, input_.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      } else {
        MPI_Allreduce(input_.data(), output_.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      }
    }
    return (MPI_Wtime() - begin) / iterations;
  }

 private:
  std::vector<float> input_, output_;
  bool in_place_ = true;
};

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon::bench;
  MPI_Init(&argc, &argv);
  Place place = place_from(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place.ranks);
  {
    CommandChannel channel(place);
    OpenMpiAllReduce side;
    serve(channel, [&](const Request& request) { return measure(side, place, request); });
  }
  MPI_Finalize();
}
