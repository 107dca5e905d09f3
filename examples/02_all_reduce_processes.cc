// One process per rank, on one host or several, under any launcher, or by hand:
//   for r in 0 1; do RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./02_all_reduce_processes &
//   done; wait
// On several hosts every rank also needs the same TAXON_SECRET.
#include <taxon/error.h>
#include <taxon/job.h>

#include <iostream>
#include <vector>

int main() try {
  taxon::Job job = taxon::Job::from_environment();
  std::vector<float> values(1 << 20, static_cast<float>(job.rank() + 1));
  job.all_reduce(values);
  std::cout << "rank " << job.rank() << " of " << job.size() << ": every value is " << values[0] << "\n";
  job.leave();
} catch (const taxon::Error& error) {
  std::cerr << error.what() << "\n";
  return exit_code(error.kind());
}
