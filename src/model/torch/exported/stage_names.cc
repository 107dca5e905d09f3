#include "model/torch/exported/stage_names.h"

#include <algorithm>
#include <map>

namespace taxon::model::exported {
namespace {

/// "layer1.0.conv1.weight" up to its n-th dot.
std::string outer(const std::string& name, std::size_t depth) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < depth && end != std::string::npos; ++i)
    end = name.find('.', end == 0 ? 0 : end + 1);
  return name.substr(0, depth == 0 ? 0 : end);
}

bool is_inside(const std::string& name, const std::string& module) {
  return module.empty() || name == module || name.starts_with(module + ".");
}

/// Of one stage.
class Naming {
 public:
  explicit Naming(std::vector<NamedTensor> parameters) : parameters_(std::move(parameters)) {
    const std::string& first = parameters_.front().name;
    const auto modules = static_cast<std::size_t>(std::count(first.begin(), first.end(), '.'));
    for (depth_ = modules; depth_ > 0 && !is_inside_all(outer(first, depth_)); --depth_)
      ;
    name_ = outer(first, depth_);
  }
  const std::string& name() const { return name_; }
  /// False: the name is a parameter's already.
  bool go_inwards() {
    std::map<std::string, std::int64_t> elements;
    for (const NamedTensor& item : parameters_)
      if (is_inside(item.name, name_)) elements[outer(item.name, depth_ + 1)] += item.tensor.numel();
    const std::string before = std::exchange(name_, largest(elements));
    ++depth_;
    return name_ != before;
  }

 private:
  bool is_inside_all(const std::string& module) const {
    return std::all_of(parameters_.begin(), parameters_.end(),
                       [&](const NamedTensor& item) { return is_inside(item.name, module); });
  }
  /// The first one in the order of parameters of equally large ones.
  std::string largest(const std::map<std::string, std::int64_t>& elements) const {
    std::string best;
    for (const NamedTensor& item : parameters_) {
      const auto found = elements.find(outer(item.name, depth_ + 1));
      if (found != elements.end() && (best.empty() || found->second > elements.at(best))) best = found->first;
    }
    return best;
  }

  std::vector<NamedTensor> parameters_;
  std::size_t depth_ = 0;
  std::string name_;
};

}  // namespace

std::vector<std::string> stage_names(const std::vector<std::vector<NamedTensor>>& stages) {
  std::vector<Naming> namings(stages.begin(), stages.end());
  for (bool changed = true; changed;) {
    std::vector<Naming*> unclear;
    for (Naming& naming : namings)
      if (std::count_if(namings.begin(), namings.end(),
                        [&](const Naming& other) { return is_inside(other.name(), naming.name()); }) > 1)
        unclear.push_back(&naming);
    changed = false;
    for (Naming* naming : unclear) changed = naming->go_inwards() || changed;
  }
  std::vector<std::string> names;
  for (const Naming& naming : namings) names.push_back(naming.name());
  return names;
}

}  // namespace taxon::model::exported
