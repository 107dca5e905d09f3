#include "model/torch/framework.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <omp.h>

#include <cstring>

#include "base/error.h"

namespace taxon::model {
namespace {

std::mutex& framework_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// OpenBLAS with threads of its own ignores OpenMP's count and takes every core unless told otherwise. Looked
/// up at run time: which BLAS serves libtorch is the system's choice, and the others have nothing to set.
struct BlasThreads {
  using Set = void (*)(int);
  using Get = int (*)();
  Set set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  Get get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
};
const BlasThreads& blas_threads() {
  static const BlasThreads functions;
  return functions;
}

/// Returns the count before. OpenMP's count belongs to the calling thread and costs nothing to change, where
/// at::set_num_threads rebuilds a thread pool; it is the way out if libtorch uses another OpenMP than ours.
int exchange_threads(int threads) {
  int before = at::get_num_threads();  // the first use on a thread also sets its count to the default
  if (before == threads) return before;
  omp_set_num_threads(threads);
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
  return before;
}

int exchange_blas_threads(int threads) {
  const BlasThreads& blas = blas_threads();
  if (!blas.set || !blas.get) return threads;
  int before = blas.get();
  if (before != threads) blas.set(threads);
  return before;
}

at::Tensor exchange_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  at::Tensor before = generator.get_state();
  generator.set_state(state);
  return before;
}

}  // namespace

at::ScalarType scalar_type(DType type) {
  static constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16,
                                              at::kInt,   at::kLong,   at::kByte};
  return kTypes[static_cast<std::size_t>(type)];
}

at::MemoryFormat format_of(plan::MemoryFormat format, at::MemoryFormat automatic) {
  if (format == plan::MemoryFormat::ChannelsLast) return at::MemoryFormat::ChannelsLast;
  return format == plan::MemoryFormat::Auto ? automatic : at::MemoryFormat::Contiguous;
}

at::Tensor arranged(const at::Tensor& batch, at::MemoryFormat format) {
  if (format == at::MemoryFormat::Preserve || batch.dim() != 4 || !batch.is_floating_point()) return batch;
  // Of one channel both orders are one, which only its strides can tell the layers.
  if (format == at::MemoryFormat::ChannelsLast && batch.size(1) == 1 && batch.is_contiguous())
    return batch.as_strided(batch.sizes(), {batch.stride(0), 1, batch.size(3), 1});
  return batch.contiguous(format);
}

bool lie_alike(const at::Tensor& one, const at::Tensor& other) {
  for (std::int64_t dimension = 0; dimension < one.dim(); ++dimension)
    if (one.size(dimension) > 1 && one.stride(dimension) != other.stride(dimension)) return false;
  return true;
}

RandomStream::RandomStream(std::uint64_t seed)
    : state_(at::make_generator<at::CPUGeneratorImpl>(seed).get_state()) {}

std::vector<std::byte> RandomStream::bytes() const {
  std::vector<std::byte> bytes(state_.nbytes());
  std::memcpy(bytes.data(), state_.data_ptr(), bytes.size());
  return bytes;
}

void RandomStream::restore(ConstView bytes) {
  at::Tensor state = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
  try {
    at::make_generator<at::CPUGeneratorImpl>().set_state(state);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::Checkpoint,
                std::string("the state of the model's random stream is not one of this version's: ") +
                    error.what_without_backtrace());
  }
  state_ = state;
}

RandomStream RandomStream::of_framework() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  RandomStream stream;
  stream.state_ = generator.get_state();
  return stream;
}

void RandomStream::give_to_framework() const { exchange_generator_state(state_); }

void use_threads(int threads) {
  exchange_threads(threads);
  exchange_blas_threads(threads);
}

FrameworkCall::FrameworkCall(RandomStream& stream, int threads)
    : turn_(framework_mutex()),
      stream_(stream),
      outer_state_(exchange_generator_state(stream.state_)),
      outer_threads_(exchange_threads(threads)),
      outer_blas_threads_(exchange_blas_threads(threads)) {}

OneThread::OneThread() : outer_threads_(exchange_threads(1)) {}
OneThread::~OneThread() { exchange_threads(outer_threads_); }

FrameworkCall::~FrameworkCall() {
  exchange_blas_threads(outer_blas_threads_);
  exchange_threads(outer_threads_);
  stream_.state_ = exchange_generator_state(outer_state_);
}

}  // namespace taxon::model
