#include "model/torch/staged_network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "model/division.h"
#include "model/torch/flops.h"

namespace taxon::model {
namespace {

/// For the end of a step, when nobody waits for buckets.
class Unheard final : public tensor::Milestones {
 public:
  void reached(int) override {}
};

/// -1: it is none of them.
int index_of(const std::vector<NamedTensor>& list, const at::Tensor& tensor) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].tensor.is_same(tensor)) return static_cast<int>(i);
  return -1;
}

/// What a member would take, as far as extents go.
at::Tensor as_moved(const at::Tensor& left, FeatureChange change, const Division& division) {
  switch (change) {
    case FeatureChange::Gathered:
      return at::cat(std::vector<at::Tensor>(static_cast<std::size_t>(division.members), left), 1);
    case FeatureChange::Parted:
      return left.chunk(division.members, 1)[static_cast<std::size_t>(division.member)];
    case FeatureChange::None:
      break;
  }
  return left;
}

/// `memory` as so many batches that lie one after the other.
std::vector<at::Tensor> units(const SampleLayout& layout, int count, ConstView memory, std::size_t samples) {
  const std::size_t bytes =
      samples * static_cast<std::size_t>(layout.elements()) * c10::elementSize(layout.type);
  TAXON_CHECK(memory.size() == bytes * static_cast<std::size_t>(count), memory.size(), " bytes for ", samples,
              " samples, which have ", bytes * static_cast<std::size_t>(count));
  std::vector<at::Tensor> views;
  for (int unit = 0; unit < count; ++unit)
    views.push_back(
        layout.view(const_cast<std::byte*>(memory.data()) + static_cast<std::size_t>(unit) * bytes,
                    static_cast<std::int64_t>(samples)));
  return views;
}

}  // namespace

void StagedNetwork::check(const Division& division) const {
  const ModelSpec& spec = net_.tensors->spec();
  const std::size_t segments = spec.segments.size();
  if (net_.outputs.size() + 1 != segments || segments < 2)
    throw Error(ErrorKind::Usage, fmt::format("model {} can't be divided: it is one segment{}", net_.name,
                                              net_.network->undivided()));
  for (Range stage : division.stages)
    if (stage.size > 0 && stage.end() < segments && net_.outputs[stage.end() - 1].type != net_.compute)
      throw Error(
          ErrorKind::Usage,
          fmt::format("model {} can't be cut after {}: what leaves it is {}, not {}", net_.name,
                      spec.segments[stage.end() - 1].name, c10::toString(net_.outputs[stage.end() - 1].type),
                      c10::toString(net_.compute)));
  check_stages(spec, division);
  TAXON_CHECK(division.member >= 0 && division.member < division.members, "member ", division.member, " of ",
              division.members);
}

void StagedNetwork::divide(const Division& division) {
  TAXON_CHECK(!divided() && !net_.tensors->gradients().bound(), "divide() comes once, before bind()");
  check(division);
  net_.call("division", [&] {
    const std::vector<NamedTensor> parameters = net_.tensors->parameters();
    const std::vector<NamedTensor> buffers = net_.network->buffers();
    members_ = division.members;
    activations_ = division.activations;
    hold(members_ == 1 ? in_stages(division) : in_steps(division), parameters, buffers);
  });
}

StagedNetwork::Whole StagedNetwork::in_stages(const Division& division) const {
  const std::vector<NamedTensor>& parameters = net_.tensors->parameters();
  Whole whole{.spec = net_.tensors->spec(), .division = division, .outputs = net_.outputs};
  const int stages = static_cast<int>(whole.spec.segments.size());
  for (int stage = 0; stage < stages; ++stage) {
    whole.steps.push_back({.stage = stage});
    whole.rows.push_back(&parallel::find_split("none"));
    whole.borrowed.emplace_back();
    for (const at::Tensor& tensor : net_.network->borrowed(stage))
      for (std::size_t p = 0; p < parameters.size(); ++p)
        if (parameters[p].tensor.is_same(tensor)) whole.borrowed.back().push_back(static_cast<int>(p));
  }
  return whole;
}

StagedNetwork::Whole StagedNetwork::in_steps(const Division& division) {
  const NetworkSplit split =
      net_.network->split({division, net_.name, net_.zeros(1).inputs.front(), net_.compute});
  account_ = split.account;
  by_classes_ = split.by_classes;
  const std::vector<NamedTensor>& parameters = net_.tensors->parameters();
  const std::vector<NamedTensor>& exact = net_.tensors->exact();
  const std::vector<NamedTensor> buffers = net_.network->buffers();
  Whole whole{.spec = net_.tensors->spec()};
  ModelSpec& spec = whole.spec;
  spec.members = division.members;
  spec.member = division.member;
  const std::vector<Segment> stages = std::exchange(spec.segments, {});

  std::vector<std::size_t> counts;
  std::set<int> owned;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::vector<NetworkStep>& steps = split.stages[stage];
    for (std::size_t b = 0; b < spec.buffers.size(); ++b)
      if (net_.tensors->spec().buffers[b].segment == static_cast<int>(stage))
        spec.buffers[b].segment = static_cast<int>(spec.segments.size());
    counts.push_back(steps.size());
    const bool kept = std::any_of(steps.begin(), steps.end(), [](const auto& s) { return s.reads_entering; });
    for (std::size_t i = 0; i < steps.size(); ++i) {
      spec.segments.push_back({steps[i].name, {}});
      whole.steps.push_back({.stage = static_cast<int>(stage),
                             .step = static_cast<int>(i),
                             .reads_entering = steps[i].reads_entering,
                             .is_entering = kept && i == 0});
      whole.rows.push_back(steps[i].row);
      whole.borrowed.emplace_back();
      for (const at::Tensor& tensor : steps[i].parameters) {
        const int p = index_of(parameters, tensor);
        const auto& own = stages[stage].parameters;
        const bool is_owner = std::count(own.begin(), own.end(), p) > 0 && owned.insert(p).second;
        (is_owner ? spec.segments.back().parameters : whole.borrowed.back()).push_back(p);
      }
    }
  }
  whole.steps.back().summarises = by_classes_;
  TAXON_CHECK(owned.size() == parameters.size(), owned.size(), " of ", parameters.size(), " have a segment");
  for (const at::Tensor& tensor : split.partial)
    spec.parameters[static_cast<std::size_t>(index_of(parameters, tensor))].partial = true;
  for (const TensorCut& cut : split.cuts) {
    const auto take = [&](auto& described) {
      described.split = cut.dimension;
      described.blocks = cut.blocks;
      described.shape[static_cast<std::size_t>(cut.dimension)] /= division.members;
    };
    if (const int p = index_of(parameters, cut.tensor); p >= 0) {
      take(spec.parameters[static_cast<std::size_t>(p)]);
      if (!exact.empty()) {
        TensorCut of_exact = cut;
        of_exact.tensor = exact[static_cast<std::size_t>(p)].tensor;
        of_exact.tensor.set_data(part_of(of_exact, division));
      }
    } else {
      take(spec.buffers[static_cast<std::size_t>(index_of(buffers, cut.tensor))]);
    }
    at::Tensor(cut.tensor).set_data(part_of(cut, division));
  }
  whole.division = model::in_steps(division, counts);
  probe(whole);
  return whole;
}

/// Operations and outputs of each step on this member, as one that the others' values are left out of.
void StagedNetwork::probe(Whole& whole) const {
  constexpr std::int64_t kSamples = 2;
  at::NoGradGuard no_grad;
  net_.network->set_mode(Mode::Evaluate);
  at::Tensor activations = net_.zeros(kSamples).inputs.front(), entering;
  for (std::size_t i = 0; i < whole.steps.size(); ++i) {
    const Step& step = whole.steps[i];
    if (i > 0)
      if (const auto between = parallel::boundary(*whole.rows[i - 1], *whole.rows[i]))
        activations = as_moved(
            activations,
            feature_change(between->forward, whole.rows[i - 1]->by_samples(), whole.rows[i]->by_samples()),
            whole.division);
    if (step.is_entering) entering = activations.clone();
    const auto flops = count_flops([&] {
      activations = net_.network->forward(step.stage, step.step, std::move(activations), entering);
      if (step.summarises) activations = net_.summary(activations, net_.zeros(kSamples).labels);
    });
    Segment& segment = whole.spec.segments[i];
    segment.forward_flops = total(flops) / kSamples;
    whole.outputs.push_back(layout_of(activations));
    segment.outputs = whole.outputs.back().elements();
  }
}

void StagedNetwork::hold(Whole whole, const std::vector<NamedTensor>& parameters,
                         const std::vector<NamedTensor>& buffers) {
  HeldStages held = held_stages(whole.spec, whole.division, whole.borrowed);
  cut_pieces(held, whole.spec, whole.division, whole.rows);
  std::vector<NamedTensor> own_parameters, own_buffers, own_exact;
  for (int p : held.parameters) {
    own_parameters.push_back(parameters[static_cast<std::size_t>(p)]);
    if (!net_.tensors->exact().empty())
      own_exact.push_back(net_.tensors->exact()[static_cast<std::size_t>(p)]);
  }
  for (int b : held.buffers) own_buffers.push_back(buffers[static_cast<std::size_t>(b)]);
  net_.withdraw_targets();
  net_.tensors.reset();  // autograd's nodes remember whole shapes
  net_.tensors = std::make_unique<BoundTensors>(std::move(held.spec), std::move(own_parameters),
                                                std::move(own_buffers), std::move(own_exact));
  net_.offer_targets();
  for (std::size_t p = 0; p < parameters.size(); ++p)
    if (std::count(held.parameters.begin(), held.parameters.end(), static_cast<int>(p)) == 0) {
      at::Tensor tensor = parameters[p].tensor;
      tensor.set_data(at::empty({0}, tensor.options()));
    }

  pieces_ = std::move(held.pieces);
  const std::vector<int>& trainable = net_.tensors->trainable();
  for (std::size_t s = 0; s < held.segments.size(); ++s) {
    const auto segment = static_cast<std::size_t>(held.segments[s]);
    Part& part = parts_.emplace_back(Part{whole.steps[segment], {}, {}});
    part.adds_aside = whole.rows[segment]->input_gradient != parallel::kPartial || whole.division.member == 0;
    for (int p : held.reads[s]) {
      const auto trained = std::find(trainable.begin(), trainable.end(), p);
      if (trained == trainable.end()) continue;
      part.trained.push_back(static_cast<int>(trained - trainable.begin()));
      part.weights.push_back(net_.tensors->parameters()[static_cast<std::size_t>(p)].tensor);
    }
  }
  find_ends(whole, held.segments);
}

void StagedNetwork::find_ends(const Whole& whole, const std::vector<int>& segments) {
  const auto in_parts = [&](const SampleLayout& layout) {
    return resized(layout, layout.sizes[0] / members_);
  };
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Piece& piece = pieces_[p];
    // What comes in left the segment before this one.
    const std::size_t first = piece.segments.begin < segments.size()
                                  ? static_cast<std::size_t>(segments[piece.segments.begin])
                                  : whole.steps.size();
    const std::size_t end = first + piece.segments.size;
    const auto change_after = [&](std::size_t from) {
      const Piece& left = pieces_[from];
      if (from + 1 == pieces_.size() || pieces_[from + 1].stage != left.stage) return FeatureChange::None;
      return feature_change(left.forward, left.by_samples, pieces_[from + 1].by_samples);
    };
    const FeatureChange before =
        p > 0 && pieces_[p - 1].stage == piece.stage ? change_after(p - 1) : FeatureChange::None;
    Ends& ends = ends_.emplace_back();
    if (first > 0) {
      const SampleLayout& left = whole.outputs[first - 1];
      ends.input = {before == FeatureChange::Parted ? in_parts(left) : left,
                    before == FeatureChange::Gathered};
    }
    if (piece.outputs > 0) {
      const bool leaves_parts = change_after(p) == FeatureChange::Parted;
      const SampleLayout& left = whole.outputs[end - 1];
      ends.output = {leaves_parts ? in_parts(left) : left, leaves_parts};
    }
    for (const SampleLayout* layout : {&ends.input.layout, &ends.output.layout})
      if (!layout->sizes.empty() && layout->type != net_.compute)
        throw Error(ErrorKind::Usage,
                    fmt::format("model {} can't be divided so: {} would have to travel, not {}", net_.name,
                                c10::toString(layout->type), c10::toString(net_.compute)));
  }
}

void StagedNetwork::begin_step(const StepInput& input) {
  TAXON_CHECK(net_.tensors->gradients().bound(), "bind() comes before the first step");
  TAXON_CHECK(graphs_.empty(), "the step before is not over");
  net_.tensors->gradients().begin_step(input.gradients);
  begin_gradients();
  output_ = {};
}

void StagedNetwork::begin_gradients() {
  left_.assign(net_.tensors->trainable().size(), 0);
  for (const Part& part : parts_)
    for (int p : part.trained) ++left_[static_cast<std::size_t>(p)];
  pieces_left_ = static_cast<int>(pieces_.size());
}

at::Tensor StagedNetwork::read(const Edge& edge, ConstView memory, std::size_t samples) const {
  // from_blob has no const form; what is given as const is only read.
  const std::vector<at::Tensor> parts = units(edge.layout, edge.by_member ? members_ : 1, memory, samples);
  return parts.size() == 1 ? parts.front() : at::cat(parts, 1);
}

void StagedNetwork::write(const at::Tensor& values, const Edge& edge, View memory,
                          std::size_t samples) const {
  std::vector<at::Tensor> parts = units(edge.layout, edge.by_member ? members_ : 1, memory, samples);
  std::int64_t begin = 0;
  for (at::Tensor& part : parts) {
    if (!values.defined()) {
      part.zero_();
      continue;
    }
    part.copy_(parts.size() == 1 ? values : values.narrow(1, begin, part.size(1)));
    if (parts.size() > 1) begin += part.size(1);
  }
}

Range StagedNetwork::own(int piece, Range samples) const {
  const ModelSpec& spec = net_.tensors->spec();
  return pieces_[static_cast<std::size_t>(piece)].own(samples, spec.members, spec.member);
}

at::Tensor StagedNetwork::input_of(std::size_t piece, data::Inputs inputs, ConstView input,
                                   Range samples) const {
  if (pieces_[piece].inputs == 0) return net_.inputs_of(inputs, samples).front();
  return read(ends_[piece].input, input, samples.size);
}

StagedNetwork::Link* StagedNetwork::link_that_took(std::size_t part, int micro) {
  if (!parts_[part].reads_entering) return nullptr;
  const std::size_t took = part - static_cast<std::size_t>(parts_[part].step);
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (took >= pieces_[p].segments.begin && took < pieces_[p].segments.end())
      return &graphs_.at({static_cast<int>(p), micro}).links[took - pieces_[p].segments.begin];
  return nullptr;
}

at::Tensor StagedNetwork::run(const Part& part, at::Tensor inputs, const at::Tensor& entering,
                              const data::Values& labels, Range samples) {
  if (members_ == 1) return net_.network->forward(part.stage, std::move(inputs));
  const at::Tensor outputs = net_.network->forward(part.stage, part.step, std::move(inputs), entering);
  return part.summarises ? net_.summary(outputs, net_.labels_of(labels, samples)) : outputs;
}

Loss StagedNetwork::loss(const at::Tensor& given, const data::Values& labels, Range samples) const {
  const at::Tensor own = net_.labels_of(labels, samples);
  return by_classes_ ? net_.loss_of_summaries(given, own) : net_.loss(given, own);
}

StagedNetwork::Graph& StagedNetwork::graph_of(int index, const MicroBatch& micro, ConstView input) {
  const auto [entry, begins] = graphs_.try_emplace(std::pair(index, micro.index));
  Graph& graph = entry->second;
  TAXON_CHECK(!graph.passed, "micro-batch ", micro.index, " comes a second time");
  if (!begins) return graph;
  graph.input = input;
  if (activations_ == plan::Activations::Recomputed) graph.drawn = RandomStream::of_framework();
  return graph;
}

void StagedNetwork::begin_forward(int index, const MicroBatch& micro, ConstView input, std::size_t until) {
  if (own(index, micro.samples()).size == 0) return;
  net_.call("forward", [&] {
    at::AutoGradMode enable(activations_ == plan::Activations::Kept);
    net_.network->set_mode(Mode::Train);
    advance(static_cast<std::size_t>(index), micro, graph_of(index, micro, input), until);
  });
}

void StagedNetwork::forward(int index, const MicroBatch& micro, ConstView input, View output) {
  const Range samples = own(index, micro.samples());
  if (samples.size == 0) return;
  net_.call("forward", [&] {
    const bool kept = activations_ == plan::Activations::Kept;
    at::AutoGradMode enable(kept);
    net_.network->set_mode(Mode::Train);
    const auto at = static_cast<std::size_t>(index);
    Graph& graph = graph_of(index, micro, input);
    Loss loss;
    const at::Tensor activations = run(at, micro, graph, loss);
    if (is_last(pieces_[at]))
      output_ += loss.output();
    else
      write(activations.detach(), ends_[at].output, output, samples.size);
    if (!kept) let_go(at, graph);
    graph.passed = true;
  });
}

void StagedNetwork::advance(std::size_t at, const MicroBatch& micro, Graph& graph, std::size_t until) {
  const Piece& piece = pieces_[at];
  const Range samples = own(static_cast<int>(at), micro.samples());
  if (graph.links.empty()) {
    graph.reached = input_of(at, micro.step->inputs, graph.input, samples);
    // The batch's own, which a module may write over, and which are read again.
    if (activations_ == plan::Activations::Recomputed && piece.inputs == 0)
      graph.reached = graph.reached.clone();
  }
  for (std::size_t s = piece.segments.begin + graph.links.size(); s < until; ++s) {
    Link link{.inputs = graph.reached.detach()};
    if (parts_[s].stage > 0 || parts_[s].step > 0) link.inputs.requires_grad_(true);
    if (const Link* took = link_that_took(s, micro.index))
      link.entering = took->inputs.detach().requires_grad_(true);
    graph.reached = run(parts_[s], link.inputs, link.entering, micro.step->labels, samples);
    link.outputs = graph.reached;
    graph.links.push_back(std::move(link));
  }
}

at::Tensor StagedNetwork::run(std::size_t at, const MicroBatch& micro, Graph& graph, Loss& loss) {
  const Piece& piece = pieces_[at];
  advance(at, micro, graph, piece.segments.end());
  at::Tensor activations = std::exchange(graph.reached, {});
  if (!is_last(piece)) return activations;
  at::AutoGradMode enable(true);  // labels are smoothed where there are gradients
  graph.seen = activations.detach().requires_grad_(true);
  loss = this->loss(graph.seen, micro.step->labels, own(static_cast<int>(at), micro.samples()));
  graph.loss = loss.sum / micro.step->global_labels();
  return activations;
}

void StagedNetwork::let_go(std::size_t at, Graph& graph) const {
  graph.seen = graph.loss = at::Tensor();
  for (std::size_t i = 0; i < graph.links.size(); ++i) {
    const bool enters = parts_[pieces_[at].segments.begin + i].is_entering;
    graph.links[i] = {.inputs = enters ? graph.links[i].inputs : at::Tensor()};
  }
}

/// All pieces of the stage at once, since later ones may read what the first one took. Numbers are drawn as
/// before, and what passes leave in buffers they have left there already.
void StagedNetwork::compute_again(int stage, const MicroBatch& micro) {
  at::AutoGradMode enable(true);
  net_.network->set_mode(Mode::Train);
  const RandomStream now = RandomStream::of_framework();
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& buffer : net_.tensors->buffer_tensors()) buffers.push_back(buffer.tensor.clone());
  Loss counted_before;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const auto graph = graphs_.find({static_cast<int>(p), micro.index});
    if (pieces_[p].stage != stage || graph == graphs_.end()) continue;
    graph->second.drawn->give_to_framework();
    graph->second.links.clear();
    run(p, micro, graph->second, counted_before);
    graph->second.drawn.reset();
  }
  now.give_to_framework();
  at::NoGradGuard no_grad;
  // Graphs that hold them too are not to take this for a change.
  for (std::size_t b = 0; b < buffers.size(); ++b)
    net_.tensors->buffer_tensors()[b].tensor.variable_data().copy_(buffers[b]);
}

void StagedNetwork::backward(int index, const MicroBatch& micro, Gradients which, ConstView output_gradient,
                             View input_gradient, bool last, tensor::Milestones& marks) {
  net_.call("backward", [&] {
    const auto at = static_cast<std::size_t>(index);
    const Piece& piece = pieces_[at];
    const std::size_t samples = own(index, micro.samples()).size;
    const bool of_inputs = which != Gradients::OfWeights;
    Graph* const graph = samples > 0 ? &graphs_.at({index, micro.index}) : nullptr;
    if (pieces_left_ == 0) {
      net_.tensors->gradients().begin_again();
      begin_gradients();
    }
    net_.tensors->gradients().deliver_to(marks);
    if (graph && graph->drawn) compute_again(piece.stage, micro);
    at::Tensor gradient;
    if (graph && of_inputs) gradient = begin_backward(at, *graph, which, output_gradient, samples);
    for (std::size_t i = piece.segments.size; i-- > 0;) {
      const std::size_t s = piece.segments.begin + i;
      if (graph && of_inputs) graph->links[i].gradient = gradient;
      if (last) expect_last(parts_[s]);
      if (graph) gradient = pass(s, graph->links[i], which, micro.index);
      if (last) end(parts_[s]);
    }
    if (graph && of_inputs && piece.inputs > 0) write(gradient, ends_[at].input, input_gradient, samples);
    if (last && --pieces_left_ == 0) net_.tensors->gradients().end_parameters();
    if (which != Gradients::OfInputs) graphs_.erase({index, micro.index});
  });
}

at::Tensor StagedNetwork::begin_backward(std::size_t piece, Graph& graph, Gradients which, ConstView given,
                                         std::size_t samples) const {
  if (is_last(pieces_[piece]))
    return torch::autograd::grad({std::exchange(graph.loss, {})}, {std::exchange(graph.seen, {})})[0];
  const at::Tensor gradient = read(ends_[piece].output, given, samples);
  // Until the gradients of weights are made the caller's memory is not ours.
  return which == Gradients::OfInputs && !graph.links.empty() ? gradient.clone() : gradient;
}

/// Returns the gradient of the inputs. Undefined: there is none, or it was made before.
at::Tensor StagedNetwork::pass(std::size_t index, Link& link, Gradients which, int micro) {
  const Part& part = parts_[index];
  GradientSink& sink = net_.tensors->gradients();
  const bool has_pass = link.gradient.defined() && link.outputs.grad_fn();
  if (which == Gradients::OfWeights) {
    if (has_pass && !part.weights.empty())
      sink.backward_of_weights(link.outputs, link.gradient, part.weights);
    return {};
  }
  std::vector<at::Tensor> leaves = {link.inputs};
  if (link.entering.defined()) leaves.push_back(link.entering);
  std::vector<at::Tensor> gradients(leaves.size());
  if (has_pass && which == Gradients::All)
    gradients = sink.backward(link.outputs, std::exchange(link.gradient, {}), leaves);
  else if (has_pass && link.inputs.requires_grad())
    gradients = torch::autograd::grad({link.outputs}, leaves, {link.gradient}, /*retain_graph=*/true,
                                      /*create_graph=*/false, /*allow_unused=*/true);
  if (Link* took = link_that_took(index, micro)) took->aside = gradients.back();
  const at::Tensor aside = std::exchange(link.aside, {});
  if (!aside.defined() || !part.adds_aside) return gradients.front();
  return gradients.front().defined() ? gradients.front() + aside : aside;
}

void StagedNetwork::expect_last(const Part& part) {
  for (int parameter : part.trained)
    if (--left_[static_cast<std::size_t>(parameter)] == 0) net_.tensors->gradients().expect_last(parameter);
}

void StagedNetwork::end(const Part& part) {
  for (int parameter : part.trained)
    if (left_[static_cast<std::size_t>(parameter)] == 0) net_.tensors->gradients().end_parameter(parameter);
}

StepOutput StagedNetwork::end_step() {
  TAXON_CHECK(graphs_.empty(), graphs_.size(), " passes have no backward pass");
  Unheard nobody;
  net_.tensors->gradients().deliver_to(nobody);
  net_.tensors->gradients().end_step();
  return std::exchange(output_, {});
}

void StagedNetwork::abandon_step() {
  graphs_.clear();
  net_.tensors->gradients().abandon_step();
}

StepOutput StagedNetwork::evaluate(int index, data::Inputs inputs, data::Values labels, ConstView input,
                                   View output) {
  if (labels.empty()) return {};
  return net_.call("evaluation", [&] {
    at::NoGradGuard no_grad;
    net_.network->set_mode(Mode::Evaluate);
    const auto at = static_cast<std::size_t>(index);
    const Piece& piece = pieces_[at];
    const Range samples = own(index, {0, net_.samples_of(labels)});
    if (samples.size == 0) return StepOutput();
    at::Tensor activations = input_of(at, inputs, input, samples);
    for (std::size_t s = piece.segments.begin; s < piece.segments.end(); ++s) {
      // Layers may work in place, and the next piece's buffer may be this one's.
      if (parts_[s].is_entering) entering_ = activations.clone();
      activations = run(parts_[s], activations, entering_, labels, samples);
      if (parts_[s].reads_entering) entering_ = at::Tensor();
    }
    if (is_last(piece)) return loss(activations, labels, samples).output();
    write(activations, ends_[at].output, output, samples.size);
    return StepOutput();
  });
}

}  // namespace taxon::model
