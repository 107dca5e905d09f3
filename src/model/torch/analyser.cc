#include "model/torch/analyser.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <map>
#include <typeinfo>

#include "base/check.h"
#include "model/torch/framework.h"

namespace taxon::model {

using torch::autograd::Node;

namespace {

/// Nodes on the way from where a gradient is made to its parameter. All but the first hand it on: a transpose
/// for the weight of a linear layer, views, identities.
constexpr std::uint32_t kLongestWay = 5;
/// Parameters that a node can be near to; more is a graph that this can't help.
constexpr std::size_t kMostRoles = 64;
/// Of one parameter: those of branches that take turns.
constexpr std::size_t kMostSites = 4;
constexpr std::size_t kAlignment = 64;  // libtorch's
/// When a node runs among the nodes of its group in the pass.
enum When : std::uint32_t { kOnly = 1, kFirst = 2, kSecond = 4, kLast = 8, kBetween = 16 };

std::uint64_t extended(std::uint64_t way, std::uint64_t step) {
  return (way ^ step) * 0x9e3779b97f4a7c15ULL + (way >> 29);
}

}  // namespace

/// Tells the analyser that a node runs from now on.
class NodeBegins final : public torch::autograd::FunctionPreHook {
 public:
  NodeBegins(Analyser& analyser, Analyser::Roles roles) : analyser_(analyser), roles_(roles) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    analyser_.enter(roles_);
    return gradients;
  }

 private:
  Analyser& analyser_;
  const Analyser::Roles roles_;
};

Analyser::Analyser(const std::vector<Node*>& accumulators) : parameters_(accumulators.size()) {
  for (std::size_t i = 0; i < accumulators.size(); ++i)
    accumulators_[accumulators[i]] = static_cast<std::uint32_t>(i);
}
Analyser::~Analyser() = default;

void Analyser::offer(std::size_t parameter, const at::Tensor& slot) {
  Parameter& p = parameters_[parameter];
  const View memory(static_cast<std::byte*>(slot.data_ptr()), slot.nbytes());
  p.slot = slot;
  TAXON_CHECK(!occupied(parameter), "the place of parameter ", parameter, " is in use");
  if (!p.place || p.place->memory != memory.data() || p.place->bytes != memory.size())
    p.place = std::make_shared<PlacedMemory>(memory.data(), memory.size());
  p.offered = memory.size() > 0 && reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment == 0;
  p.taken.reset();
}

Analyser::Pass::Pass(Analyser& analyser, Node* root) : analyser_(analyser), scope_(analyser) {
  analyser_.begin(root);
}
Analyser::Pass::~Pass() { analyser_.end(); }

/// Walks the graph from the root, without recursion since it may be as deep as a sequence is long, and hooks
/// its nodes. A node's roles follow from those of the nodes that it hands gradients to.
void Analyser::begin(Node* root) {
  std::unordered_map<Node*, Roles> known;
  std::vector<std::pair<Node*, std::size_t>> path;  // and the next edge of each
  const auto reach = [&](Node* node) {
    if (node && !accumulators_.count(node) && known.emplace(node, Roles{}).second) path.emplace_back(node, 0);
  };
  reach(root);
  while (!path.empty()) {
    auto& [node, edge] = path.back();
    if (edge < node->num_outputs()) {
      reach(node->next_edge(edge++).function.get());
      continue;
    }
    const Roles roles = known[node] = find_roles(*node, known);
    // A node without successors is the accumulator of something else, which may outlive the graph.
    if (node->num_outputs() > 0) node->add_pre_hook(std::make_unique<NodeBegins>(*this, roles));
    path.pop_back();
  }
  count_nodes();
}

void Analyser::count_nodes() {
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> groups;
  for (Role& role : roles_) {
    const auto group =
        groups.emplace(std::pair{role.parameter, role.way}, static_cast<std::uint32_t>(groups_.size()));
    if (group.second) groups_.emplace_back();
    role.group = group.first->second;
    ++groups_[role.group].nodes;
    ++groups_[role.group].left;
  }
}

Analyser::Roles Analyser::find_roles(Node& node, const std::unordered_map<Node*, Roles>& known) {
  const auto begin = static_cast<std::uint32_t>(roles_.size());
  const std::uint64_t type = typeid(node).hash_code();
  const auto add = [&](const Role& role) {
    const bool had = std::any_of(roles_.begin() + begin, roles_.end(), [&](const Role& other) {
      return other.parameter == role.parameter && other.way == role.way;
    });
    if (!had && roles_.size() < begin + kMostRoles) roles_.push_back(role);
  };
  for (std::uint32_t output = 0; output < node.num_outputs(); ++output) {
    Node* next = node.next_edge(output).function.get();
    if (!next) continue;
    const std::uint64_t step = extended(type, output);
    if (auto parameter = accumulators_.find(next); parameter != accumulators_.end()) {
      add({parameter->second, 1, extended(0, step), 0});
      continue;
    }
    const Roles roles = known.at(next);
    for (std::uint32_t i = roles.begin; i < roles.end; ++i) {
      const Role role = roles_[i];
      if (role.length < kLongestWay) add({role.parameter, role.length + 1, extended(role.way, step), 0});
    }
  }
  return {begin, static_cast<std::uint32_t>(roles_.size())};
}

void Analyser::end() {
  for (Parameter& parameter : parameters_) parameter.offered = false;
  enter({});
  roles_.clear();
  groups_.clear();
  births_.clear();
}

void Analyser::enter(Roles roles) {
  if (roles.end > roles_.size()) roles = {};  // of a node that a graph kept from an earlier pass
  current_ = roles;
  for (std::uint32_t i = roles.begin; i < roles.end; ++i) --groups_[roles_[i].group].left;
  counts_.clear();
}

Analyser::Site Analyser::site_of(const Role& role, std::uint32_t ordinal) const {
  const Group& group = groups_[role.group];
  if (group.nodes == 1) return {role.way, ordinal, kOnly};
  const std::uint32_t before = group.nodes - group.left - 1;  // of its group
  const std::uint32_t when =
      (before == 0 ? kFirst : 0U) | (before == 1 ? kSecond : 0U) | (group.left == 0 ? kLast : 0U);
  return {role.way, ordinal, when == 0 ? kBetween : when};
}

c10::DataPtr Analyser::birth(std::size_t bytes, c10::Allocator& usual) {
  bool counted = false;
  std::uint32_t ordinal = 0;
  Parameter* given = nullptr;
  for (std::uint32_t i = current_.begin; i < current_.end && !given; ++i) {
    Parameter& parameter = parameters_[roles_[i].parameter];
    if (!parameter.place || parameter.place->bytes != bytes) continue;
    if (!counted) {
      auto count = std::find_if(counts_.begin(), counts_.end(), [&](auto& c) { return c.first == bytes; });
      if (count == counts_.end()) count = counts_.insert(count, {bytes, 0});
      ordinal = count->second++;
      counted = true;
    }
    const Site site = site_of(roles_[i], ordinal);
    const auto known = std::find_if(parameter.sites.begin(), parameter.sites.end(),
                                    [&](const Site& other) { return other.may_be(site); });
    if (known != parameter.sites.end() && parameter.offered && !parameter.taken) {
      parameter.taken = *known;
      given = &parameter;
    }
  }
  if (!counted) return usual.allocate(bytes);
  c10::DataPtr memory = given ? occupy(given->place) : usual.allocate(bytes);
  std::vector<Site> sites;
  for (std::uint32_t i = current_.begin; i < current_.end; ++i) sites.push_back(site_of(roles_[i], ordinal));
  births_.push_back({memory.get(), current_, std::move(sites)});
  return memory;
}

Analyser::Arrival Analyser::arrived(std::size_t parameter, const at::Tensor& gradient) {
  enter({});  // what the accumulator allocates is no gradient's birth
  Parameter& p = parameters_[parameter];
  const bool offered = std::exchange(p.offered, false);
  const auto elsewhere = [&] { return occupied(parameter) ? Arrival::Occupied : Arrival::Elsewhere; };
  if (!offered) return elsewhere();
  // Views of a larger tensor, of another layout, or of one that somebody else still reads can't stay.
  const bool strided = gradient.layout() == at::kStrided && gradient.has_storage();
  const void* memory = strided ? gradient.storage().data() : nullptr;
  const bool whole = strided && lie_alike(gradient, p.slot) && gradient.data_ptr() == memory &&
                     gradient.storage().nbytes() == p.place->bytes && gradient.nbytes() == p.place->bytes;
  const bool alone = strided && held_alone(gradient);
  if (p.taken && memory == p.place->memory && whole && alone) return Arrival::InPlace;
  if (p.taken) std::erase(p.sites, *p.taken);
  if (whole && alone) learn(parameter, memory);
  return elsewhere();
}

void Analyser::learn(std::size_t index, const void* memory) {
  const auto birth = std::find_if(births_.rbegin(), births_.rend(),
                                  [&](const Birth& candidate) { return candidate.memory == memory; });
  if (birth == births_.rend()) return;
  const Role* nearest = nullptr;  // longer ways lead through other uses of the parameter
  for (std::uint32_t i = birth->roles.begin; i < birth->roles.end; ++i)
    if (roles_[i].parameter == index && (!nearest || roles_[i].length < nearest->length))
      nearest = &roles_[i];
  if (!nearest) return;
  const auto place = static_cast<std::size_t>(nearest - &roles_[birth->roles.begin]);
  learn_site(parameters_[index].sites, birth->sites[place]);
}

/// What was known of the same site is now known better.
void Analyser::learn_site(std::vector<Site>& sites, Site found) {
  std::erase_if(sites, [&](const Site& known) {
    const bool same = known.may_be(found);
    if (same) found.when &= known.when;
    return same;
  });
  sites.push_back(found);
  if (sites.size() > kMostSites) sites.erase(sites.begin());
}

bool Analyser::occupied(std::size_t parameter) const {
  const auto& place = parameters_[parameter].place;
  return place && place->occupied;
}

bool Analyser::held_alone(const at::Tensor& tensor) {
  if (tensor.use_count() != 1) return false;
  if (!tensor.is_view()) return tensor.storage().use_count() == 1;
  return tensor._base().use_count() == 1 && tensor.storage().use_count() == 2;
}

bool Analyser::placed(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         is_placed(tensor.storage().data_ptr());
}

}  // namespace taxon::model
