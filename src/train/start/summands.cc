#include "train/start/summands.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "comm/collectives.h"
#include "train/units.h"

namespace taxon::train {
namespace {

/// The ranks of this pipeline that hold these stages, ascending.
std::vector<Rank> holders(RankGroups ranks, const program::Program& program, const std::vector<int>& stages) {
  std::vector<Rank> holders;
  for (int stage : stages) holders.push_back(ranks.replica->pipeline.global(program.rank_at(stage)));
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  return holders;
}

}  // namespace

int bucket_class(const model::ModelSpec& spec, int parameter) {
  enum Class { Replicated, Split, Partial, Shared };
  const model::ParameterSpec& own = spec.parameters[static_cast<std::size_t>(parameter)];
  if (!own.stages.empty()) return Shared + parameter;
  return own.partial ? Partial : own.split >= 0 ? Split : Replicated;
}

int bucket_classes(const model::ModelSpec& spec) { return 3 + static_cast<int>(spec.parameters.size()); }

SummandGroups::SummandGroups(comm::Runtime& runtime, RankGroups ranks, const model::ModelSpec& spec,
                             const Divided* divided, const plan::MeshPlan& mesh)
    : parameters_(spec.parameters.size()), spec_(spec) {
  if (!divided) return;
  groups_.push_back(&ranks.replica->tensor);
  std::map<std::vector<Rank>, int> known;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const model::ParameterSpec& parameter = spec.parameters[p];
    if (parameter.partial && mesh.tensor > 1) parameters_[p].group = kTensor;
    parameters_[p].counted = parameter.split >= 0 || ranks.position.tensor == 0;
    if (parameter.split < 0 && mesh.tensor > 1) parameters_[p].holders.push_back(kTensor);
    if (parameter.stages.empty()) continue;
    const std::vector<Rank> members = holders(ranks, divided->program, parameter.stages);
    parameters_[p].counted &= members.front() == runtime.rank();
    if (members.size() < 2) continue;
    if (parameter.partial)
      throw Error(ErrorKind::Usage,
                  fmt::format("mesh.tensor: {} is read by several stages, and each of the {} "
                              "members has a summand of its gradient; cut the pipeline "
                              "elsewhere",
                              parameter.name, mesh.tensor));
    const auto [found, is_new] = known.emplace(members, static_cast<int>(groups_.size()));
    parameters_[p].group = found->second;
    parameters_[p].holders.push_back(found->second);
    if (!is_new) continue;
    groups_.push_back(own_.emplace(members, std::make_unique<comm::Communicator>(runtime, "stages", members))
                          .first->second.get());
  }
}

task::Task<void> SummandGroups::establish() {
  for (auto& [members, group] : own_) {  // in one order at all who are in several
    co_await group->establish();
  }
}

task::Task<void> SummandGroups::spread_shared(std::vector<double>* values) const {
  // Members come before stages: a stage's first member then has what its others have.
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<Range> ranges;
    std::size_t begin = 0, count = 0;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const Range range{begin, static_cast<std::size_t>(spec_.parameters[p].count())};
      begin = range.end();
      const std::vector<int>& holders = parameters_[p].holders;
      if (std::find(holders.begin(), holders.end(), static_cast<int>(g)) == holders.end()) continue;
      ranges.push_back(range);
      count += range.size;
    }
    if (count == 0) continue;
    std::vector<double> shared(count);
    const auto copy = [&](auto&& one) {
      if (values->empty()) return;
      double* at = shared.data();
      for (Range range : ranges) {
        one(values->data() + range.begin, at, range.size);
        at += range.size;
      }
    };
    copy([](const double* from, double* to, std::size_t size) { std::copy_n(from, size, to); });
    comm::Call call{as_view(std::span(shared)), DType::Float64, kWeightsUnit};
    auto tree = comm::find_row(net::Operation::Broadcast, "tree").run(*groups_[g], call);
    co_await tree;
    copy([](double* to, const double* from, std::size_t size) { std::copy_n(from, size, to); });
  }
}

std::vector<comm::Communicator*> SummandGroups::groups() const { return groups_; }

void SummandGroups::assign(exchange::Layout& layout, const std::vector<plan::BucketPlan>& buckets) const {
  // Members number their buckets differently: what they have in common are the parameters.
  std::map<std::pair<std::string, int>, std::size_t> by_name;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto parameter = std::find_if(
        spec_.parameters.begin(), spec_.parameters.end(),
        [&](const model::ParameterSpec& each) { return each.name == buckets[b].parameters.front(); });
    const Parameter& own = parameters_[static_cast<std::size_t>(parameter - spec_.parameters.begin())];
    layout.buckets[b].counted = own.counted;
    if (own.group < 0) continue;
    layout.buckets[b].summands.emplace();
    layout.buckets[b].summands->group = static_cast<std::size_t>(own.group);
    by_name[{parameter->name, buckets[b].part}] = b;
  }
  std::vector<std::uint32_t> used(groups_.size(), 0);
  for (const auto& [name, b] : by_name) {
    exchange::Summands& summands = *layout.buckets[b].summands;
    summands.unit = kSummandUnit + used[summands.group]++;
  }
}

}  // namespace taxon::train
