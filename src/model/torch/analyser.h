#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/view.h"
#include "model/torch/gradient_placement.h"

namespace torch::autograd {
struct Node;
}

namespace taxon::model {

/// Has gradients born in the memory that they travel from: the analyser of Xue et al., "RPC considered
/// harmful: fast distributed deep learning on RDMA" (arXiv 1805.08430), for graphs that are made anew in
/// every step.
///
/// An allocation site is the n-th allocation of so many bytes inside a node of the backward graph, and the
/// node is known by its way to the parameter: the types of the nodes from there to the parameter's
/// accumulator that hand the gradient on as it is, and which of their outputs; and by when it runs among
/// those of that way: it is the only one, or the first, the second or the last. Autograd makes the sum of all
/// in the last one, or begins it in the second one and adds the others to it there, as newer releases of
/// libtorch do. So a site does not say how often the graph repeats, and is known again in a graph of another
/// length; one that was seen as the second and the last of two is either. The site of a gradient is found by
/// tracing: the memory in which it arrives is looked up among the allocations of the pass. From the next pass
/// on that site allocates in the parameter's place. Whether the gradient really arrived there is checked
/// every time; if not (another branch was taken, an operation was put in between) it is copied, and traced
/// anew. A parameter keeps a few sites, so that branches that take turns are all known after a while.
///
/// Used by the thread that calls backward(), for graphs of the processor.
class Analyser final : private GradientPlacement {
 public:
  /// `accumulators`: of the parameters; they outlive the analyser.
  explicit Analyser(const std::vector<torch::autograd::Node*>& accumulators);
  ~Analyser() override;

  /// Before a pass: the parameter's gradient may be born in `slot`, and lie as it does; it holds nothing
  /// until then.
  void offer(std::size_t parameter, const at::Tensor& slot);

  /// A backward pass from `root`, for this object's life.
  class Pass {
   public:
    Pass(Analyser& analyser, torch::autograd::Node* root);
    ~Pass();
    Pass(const Pass&) = delete;

   private:
    Analyser& analyser_;
    BirthScope scope_;
  };

  enum class Arrival {
    InPlace,    // it was born there, whole, and nobody else holds it
    Elsewhere,  // and the place is free
    Occupied,   // another tensor holds the place, or shares it
  };
  /// To be told of every gradient that reaches its accumulator, before anybody else holds it.
  Arrival arrived(std::size_t parameter, const at::Tensor& gradient);

  /// Whether a tensor holds the place that was offered last.
  bool occupied(std::size_t parameter) const;
  /// Whether nobody else holds the tensor or its memory. A view keeps what it is a view of; that nobody else
  /// may hold.
  static bool held_alone(const at::Tensor& tensor);
  /// Whether the tensor lies in a place of some analyser's.
  static bool placed(const at::Tensor& tensor);

 private:
  friend class NodeBegins;
  /// Where a node stands to a parameter whose gradient may be born in it.
  struct Role {
    std::uint32_t parameter;
    std::uint32_t length;  // nodes on the way
    std::uint64_t way;     // hash
    std::uint32_t group;   // of the nodes with this parameter and way
  };
  /// Nodes that stand alike to a parameter: those of a weight that is used many times.
  struct Group {
    std::uint32_t nodes = 0, left = 0;  // in the graph, and of them those that have not begun
  };
  struct Roles {
    std::uint32_t begin = 0, end = 0;  // indices into roles_
  };
  struct Site {
    std::uint64_t way;
    std::uint32_t ordinal;  // among the allocations of the gradient's size in the node
    std::uint32_t when;     // the node runs in its group: bits, of which it may be any
    bool may_be(const Site& other) const {
      return way == other.way && ordinal == other.ordinal && (when & other.when) != 0;
    }
    friend bool operator==(const Site&, const Site&) = default;
  };
  struct Parameter {
    at::Tensor slot;  // that was offered last
    std::shared_ptr<PlacedMemory> place;
    bool offered = false;       // in this pass, and the gradient has not come
    std::optional<Site> taken;  // the site that got the place in this pass
    std::vector<Site> sites;    // the last one that was found is the last
  };
  struct Birth {
    const void* memory;
    Roles roles;              // of the node
    std::vector<Site> sites;  // of each role
  };

  c10::DataPtr birth(std::size_t bytes, c10::Allocator& usual) override;
  void begin(torch::autograd::Node* root);
  void end();
  Roles find_roles(torch::autograd::Node& node,
                   const std::unordered_map<torch::autograd::Node*, Roles>& known);
  void count_nodes();
  void enter(Roles roles);
  Site site_of(const Role& role, std::uint32_t ordinal) const;
  static void learn_site(std::vector<Site>& sites, Site found);
  void learn(std::size_t index, const void* memory);

  std::unordered_map<torch::autograd::Node*, std::uint32_t> accumulators_;
  std::vector<Parameter> parameters_;
  // Of a pass:
  std::vector<Role> roles_;
  std::vector<Group> groups_;
  Roles current_;                                              // of the node that runs
  std::vector<std::pair<std::size_t, std::uint32_t>> counts_;  // bytes, allocations of so many in that node
  std::vector<Birth> births_;                                  // that could become gradients, in order
};

}  // namespace taxon::model
