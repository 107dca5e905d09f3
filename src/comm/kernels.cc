#include "comm/kernels.h"

#include <algorithm>
#include <array>

#include "comm/sum.h"

namespace taxon::comm {
namespace {

double additions(DType type, std::size_t bytes, std::size_t sources) {
  return static_cast<double>(bytes / size_of(type)) * static_cast<double>(sources - 1);
}

/// Small agreements travel in real memory where payloads are phantoms, and their results count.
tensor::Kernel::Body body_on(bool phantom) {
  return phantom ? tensor::Kernel::Body::OnPayload : tensor::Kernel::Body::Always;
}

}  // namespace

tensor::Kernel sum_kernel(DType type, View target, std::initializer_list<ConstView> others) {
  TAXON_CHECK(others.size() <= 3, others.size(), " sources");
  std::array<ConstView, 4> sources{target};
  std::size_t count = 1;
  bool phantom = target.is_phantom();
  for (ConstView other : others) {
    sources[count++] = other;
    phantom |= other.is_phantom();
  }
  tensor::Kernel kernel;
  kernel.name = "sum";
  kernel.cost = {additions(type, target.size(), count), target.size() * (count + 1)};
  kernel.body = [=](tensor::Milestones&) { sum_into(type, target, {sources.data(), count}); };
  kernel.runs = body_on(phantom);
  return kernel;
}

tensor::Kernel sum_members_kernel(DType type, View target, const std::vector<View>* sources, Range bytes,
                                  Write write) {
  const std::size_t count = sources->size();
  tensor::Kernel kernel;
  kernel.name = "sum";
  kernel.cost = {additions(type, bytes.size, count),
                 bytes.size * (count + (write == Write::All ? count : 1))};
  kernel.body = [=](tensor::Milestones&) {
    std::array<View, 16> few;
    std::vector<View> many;
    if (count > few.size()) many.resize(count);
    View* cut = many.empty() ? few.data() : many.data();
    for (std::size_t i = 0; i < count; ++i) cut[i] = (*sources)[i].slice(bytes.begin, bytes.size);
    if (write == Write::All) return sum_everywhere(type, {cut, count});
    std::array<ConstView, 16> few_sources;
    std::vector<ConstView> many_sources(cut, cut + (many.empty() ? 0 : count));
    std::copy_n(cut, many.empty() ? count : 0, few_sources.begin());
    sum_into(type, target, {many.empty() ? few_sources.data() : many_sources.data(), count});
  };
  kernel.runs =
      body_on(target.is_phantom() || std::any_of(sources->begin(), sources->end(),
                                                 [](const View& view) { return view.is_phantom(); }));
  return kernel;
}

tensor::Kernel copy_kernel(View target, ConstView source) {
  TAXON_CHECK(target.size() == source.size(), target.size(), " bytes from ", source.size());
  tensor::Kernel kernel;
  kernel.name = "copy";
  kernel.cost = {0, 2 * target.size()};
  kernel.body = [=](tensor::Milestones&) { copy_into(target, source); };
  kernel.runs = body_on(target.is_phantom() || source.is_phantom());
  return kernel;
}

}  // namespace taxon::comm
