#include "train/staged_pass.h"

#include <algorithm>

#include "exchange/cast.h"
#include "model/cost.h"
#include "train/units.h"

namespace taxon::train {
namespace {

using program::Action;
using program::ActionKind;

constexpr const char* kForward = "forward";
constexpr const char* kBackward = "backward";

model::Gradients gradients_of(ActionKind kind) {
  if (kind == ActionKind::Backward) return model::Gradients::All;
  return kind == ActionKind::BackwardInput ? model::Gradients::OfInputs : model::Gradients::OfWeights;
}

/// The update that counts each micro-batch, as the last stage has it, whose loss is a mean over its samples.
std::vector<int> updates_of_micros(const program::Program& program) {
  std::vector<int> updates;
  const int last = program.stages - 1;
  for (const Action& action : program.ranks[static_cast<std::size_t>(program.rank_at(last))])
    if (action.kind == ActionKind::Update && action.stage == last)
      updates.resize(static_cast<std::size_t>(action.micro) + 1, action.version - 1);
  return updates;
}

}  // namespace

/// What is under way between the actions of a step.
struct StagedPass::Step {
  explicit Step(comm::Runtime& runtime) : transfers(runtime.pending()) {}
  std::vector<model::StepInput> inputs_of_updates;
  Flight* flight = nullptr;
  const Before* before = nullptr;  // null: it is over
  optim::StepClock clock;          // of the first update
  Done done;
  std::size_t expected = 0;                  // actions whose receives have begun
  std::size_t opened = 0;                    // of the segments that are passed
  std::map<Place, Payload> inputs;           // of pieces, until the gradients of their weights are made
  std::map<Place, Payload> gradients;        // of pieces' outputs
  std::map<Place, Payload> outputs;          // of stages, that leave
  std::map<Place, Payload> input_gradients;  // of stages, that leave
  std::map<std::pair<ActionKind, Place>, Arrival> arrivals;
  task::Scope transfers;
};

StagedPass::StagedPass(comm::Runtime& runtime, Setup setup)
    : runtime_(runtime),
      setup_(std::move(setup)),
      staged_(*setup_.model->staged()),
      program_(setup_.divided->program),
      update_of_(updates_of_micros(program_)),
      passed_(segments_passed()),
      pool_(runtime.transport, setup_.type),
      crossings_(setup_.replica->tensor, pool_) {
  if (!setup_.binding.versions.empty()) versions_.emplace(actions(), setup_.binding.versions.size());
}

const std::vector<Action>& StagedPass::actions() const {
  return program_.ranks[static_cast<std::size_t>(setup_.replica->pipeline.rank())];
}

std::vector<int> StagedPass::pieces_of(int stage) const {
  std::vector<int> own;
  for (std::size_t i = 0; i < pieces().size(); ++i)
    if (pieces()[i].stage == stage) own.push_back(static_cast<int>(i));
  return own;
}

bool StagedPass::holds(int stage) const { return program_.rank_at(stage) == setup_.replica->pipeline.rank(); }

Rank StagedPass::holder(int stage) const { return setup_.replica->pipeline.global(program_.rank_at(stage)); }

model::MicroBatch StagedPass::micro_batch(const Step& step, int micro) const {
  const int update = update_of_[static_cast<std::size_t>(micro)];
  return {&step.inputs_of_updates[static_cast<std::size_t>(update)], micro, program_.micros};
}

std::vector<model::StepInput> StagedPass::inputs_of_updates(const model::StepInput& input) const {
  std::vector<model::StepInput> inputs(static_cast<std::size_t>(updates()), input);
  if (updates() == 1) return inputs;
  const auto replicas = static_cast<std::size_t>(setup_.replicas);
  for (model::StepInput& each : inputs) each.global_size = 0;
  for (std::size_t replica = 0; replica < replicas; ++replica) {
    const Range share = part({0, static_cast<std::size_t>(input.global_size)}, replicas, replica);
    for (std::size_t micro = 0; micro < update_of_.size(); ++micro)
      inputs[static_cast<std::size_t>(update_of_[micro])].global_size +=
          static_cast<std::int64_t>(part(share, update_of_.size(), micro).size);
  }
  return inputs;
}

std::set<std::size_t> StagedPass::completions() const {
  std::map<std::pair<int, int>, std::size_t> last;  // by stage and update
  for (std::size_t i = 0; i < actions().size(); ++i)
    if (const Action& action = actions()[i]; program::makes_weight_gradient(action.kind))
      last[{action.stage, update_of_[static_cast<std::size_t>(action.micro)]}] = i;
  std::set<std::size_t> all;
  for (const auto& [place, index] : last) all.insert(index);
  return all;
}

std::size_t StagedPass::copy_for(const Action& action) const {
  return versions_ ? versions_->copy_of(action.version) : 0;
}

void StagedPass::use(std::size_t copy) {
  if (updates() > 1) staged_.use_weights(copy);
}

task::Task<StagedPass::Done> StagedPass::run(const model::StepInput* input, Flight* flight,
                                             optim::StepClock clock, const Before* before) {
  Step step(runtime_);
  step.before = before;
  step.inputs_of_updates = inputs_of_updates(*input);
  step.flight = flight;
  step.clock = clock;
  step.clock.step *= updates();
  std::exception_ptr error;
  try {
    auto passing = carry_out(&step);
    co_await passing;
  } catch (...) {
    error = std::current_exception();
    if (!runtime_.pending().cancelled()) runtime_.pending().cancel(error);
  }
  try {
    co_await step.transfers.join();
  } catch (...) {
    if (!error) error = std::current_exception();
  }
  try {
    if (setup_.parameters) {
      co_await setup_.parameters->close();
    }
  } catch (...) {
    if (!error) error = std::current_exception();
  }
  if (error) {
    auto abandon = on_compute(&runtime_, "abandon step", [this] { staged_.abandon_step(); });
    co_await abandon;
    std::rethrow_exception(error);
  }
  co_return step.done;
}

/// What is gathered before its use is gathered from masters that no update changes any more, and a program
/// that updates has no exchange under way.
task::Task<void> StagedPass::end_before(Step* step) {
  const Before* before = std::exchange(step->before, nullptr);
  if (!before) co_return;
  auto ending = before->end();
  co_await ending;
}

/// Exchanges are the marks of backward passes, and the update of a flush follows them by itself. Gradients
/// take the place of those that the exchange before reads; a rank's first comes after the forward passes of
/// all its stages.
task::Task<void> StagedPass::carry_out(Step* step) {
  if (setup_.parameters || updates() > 1) {
    co_await end_before(step);
  }
  tensor::Kernel begin{kForward, {}, [this, step](tensor::Milestones&) {
                         staged_.begin_step(step->inputs_of_updates.front());
                       }};
  auto beginning = pass(step, kForward, std::move(begin));
  co_await beginning;
  const auto last = completions();
  begin_update(step, 0);
  for (std::size_t i = 0; i < actions().size(); ++i) {
    const Action action = actions()[i];
    if (program::computes(action.kind)) {
      expect_until_next_pass(step, i);
    }
    if (action.kind == ActionKind::Forward) {
      auto passing = forward(step, action);
      co_await passing;
    } else if (program::computes(action.kind)) {
      co_await end_before(step);
      auto passing = backward(step, action, last.contains(i));
      co_await passing;
    } else if (program::sends(action.kind)) {
      send(step, action);
    } else if (program::receives(action.kind)) {
      if (i >= step->expected) {
        expect(step, action);
        step->expected = i + 1;
      }
      auto receiving = receive(step, action);
      co_await receiving;
    } else if (action.kind == ActionKind::Update && updates() > 1) {
      auto updating = update(step, i);
      co_await updating;
    }
  }
  if (versions_) versions_->begin_again();
  tensor::Kernel end{kBackward, {}, [this, step, newest = copy_for({})](tensor::Milestones&) {
                       step->done.output = staged_.end_step();
                       use(newest);
                     }};
  auto ending = pass(step, kBackward, std::move(end));
  co_await ending;
  if (!counts_output()) step->done.output = {};
}

/// An update of no samples changes nothing.
void StagedPass::begin_update(Step* step, int number) {
  if (updates() == 1 || number == updates()) return;
  if (step->inputs_of_updates[static_cast<std::size_t>(number)].global_size == 0) return;
  optim::StepClock clock = step->clock;
  clock.step += number;
  step->flight->exchange->begin(clock);
}

/// No pass reads what it writes, the master weights: what passes to come use of them is copied.
task::Task<void> StagedPass::update(Step* step, std::size_t index) {
  exchange::Exchange& exchange = *step->flight->exchange;
  const Instant begin = runtime_.executor().now();
  const Duration before = exchange.updating();
  if (exchange.underway()) {
    exchange.safe_point();
    co_await exchange.finish();
    step->flight->backward.clear();
  }
  const Duration updating = exchange.updating() - before;
  step->done.busy += updating;
  step->done.idle += std::max(Duration(0), runtime_.executor().now() - begin - updating);
  if (versions_) {
    const tensor::Arena* copy = setup_.binding.versions[versions_->make(index)];
    const tensor::Arena* master = setup_.master;
    tensor::Kernel kernel{
        "version", {0, master->bytes().size() + copy->bytes().size()}, [master, copy](tensor::Milestones&) {
          exchange::cast_range(*master, *copy, {0, master->size()});
        }};
    auto copying = pass(step, "version", std::move(kernel));
    co_await copying;
  }
  begin_update(step, actions()[index].version);
}

/// Begins the receives that the pass after this one needs, so that they go on beside it.
void StagedPass::expect_until_next_pass(Step* step, std::size_t at) {
  std::size_t until = at + 1;
  while (until < actions().size() && !program::computes(actions()[until].kind)) ++until;
  for (std::size_t i = std::max(at, step->expected); i < until; ++i)
    if (program::receives(actions()[i].kind)) expect(step, actions()[i]);
  step->expected = std::max(step->expected, until);
}

std::vector<int> StagedPass::segments_passed() const {
  std::vector<int> passed;
  if (!setup_.parameters) return passed;
  for (const Action& action : actions()) {
    if (!program::computes(action.kind)) continue;
    std::vector<int> own = pieces_of(action.stage);
    if (action.kind != ActionKind::Forward) std::reverse(own.begin(), own.end());
    for (int index : own)
      if (piece(index).segments.size > 0) passed.push_back(static_cast<int>(piece(index).segments.begin));
  }
  return passed;
}

/// Not further ahead than to where neighbours' places are (exchange::keep_parts()).
task::Task<void> StagedPass::open(Step* step, int index) {
  if (!setup_.parameters || piece(index).segments.size == 0) co_return;
  const int here = passed_[step->opened++];
  TAXON_CHECK(piece(index).segments == (Range{static_cast<std::size_t>(here), 1}), "segment ", here);
  std::vector<int> ahead;
  int last = here, lowest = here, highest = here;
  for (std::size_t i = step->opened;
       i < passed_.size() && ahead.size() < static_cast<std::size_t>(setup_.ahead); ++i) {
    if (std::exchange(last, passed_[i]) == passed_[i]) continue;
    lowest = std::min(lowest, last);
    highest = std::max(highest, last);
    if (highest - lowest > setup_.ahead) break;
    ahead.push_back(last);
  }
  const Instant begin = runtime_.executor().now();
  auto opening = setup_.parameters->open(here, std::move(ahead));
  co_await opening;
  step->done.idle += runtime_.executor().now() - begin;
}

tensor::Cost StagedPass::cost_of(const model::Piece& piece, std::size_t samples, Range segments) const {
  return model::forward_cost(setup_.model->spec(), static_cast<double>(own_samples(piece, samples)),
                             static_cast<int>(segments.begin), static_cast<int>(segments.end()));
}

/// Segment by segment, while an exchange is under way that makes weights.
task::Task<void> StagedPass::forward(Step* step, Action action) {
  const model::MicroBatch micro = micro_batch(*step, action.micro);
  const std::size_t samples = micro.samples().size, copy = copy_for(action);
  const std::vector<int> own = pieces_of(action.stage);
  for (int index : own) {
    const model::Piece& here = piece(index);
    const Place place{index, action.micro};
    const Crossing crossing = onward(pieces(), index, samples);
    const Payload input = here.inputs > 0 && samples > 0 ? step->inputs.at(place) : Payload();
    const ConstView from = input.view();
    std::size_t begun = here.segments.begin;
    for (std::size_t s = here.segments.begin; step->before && s < here.segments.end(); ++s) {
      auto arriving = step->before->weights(static_cast<int>(s));
      co_await arriving;
      if (s + 1 == here.segments.end()) break;
      tensor::Kernel kernel{kForward, cost_of(here, samples, {s, 1}),
                            [this, copy, index, micro, from, until = s + 1](tensor::Milestones&) {
                              use(copy);
                              staged_.begin_forward(index, micro, from, until);
                            }};
      auto beginning = pass(step, kForward, std::move(kernel));
      co_await beginning;
      begun = s + 1;
    }
    Payload output = crossings_.room(crossing);
    co_await open(step, index);
    const View to = output.view();
    tensor::Kernel kernel{kForward, cost_of(here, samples, {begun, here.segments.end() - begun}),
                          [this, copy, index, micro, from, to](tensor::Milestones&) {
                            use(copy);
                            staged_.forward(index, micro, from, to);
                          }};
    auto passing = pass(step, kForward, std::move(kernel));
    co_await passing;
    if (!output) continue;
    auto carrying = carry(step, crossing, &output);
    co_await carrying;
    if (index != own.back())
      step->inputs[{index + 1, action.micro}] = output;
    else if (holds(action.stage + 1))
      step->inputs[{pieces_of(action.stage + 1).front(), action.micro}] = output;
    else
      step->outputs[{action.stage, action.micro}] = output;
  }
}

task::Task<void> StagedPass::backward(Step* step, Action action, bool last) {
  const model::MicroBatch micro = micro_batch(*step, action.micro);
  const std::size_t samples = micro.samples().size, copy = copy_for(action);
  last = last && micro.step->global_size > 0;
  const model::Gradients which = gradients_of(action.kind);
  const std::vector<int> own = pieces_of(action.stage);
  for (auto index = own.rbegin(); index != own.rend(); ++index) {
    const model::Piece& here = piece(*index);
    const Place place{*index, action.micro};
    const Crossing crossing = back(pieces(), *index, samples);
    const bool of_inputs = which != model::Gradients::OfWeights;
    co_await open(step, *index);
    for (std::size_t s = here.segments.begin; s < here.segments.end(); ++s) {
      co_await room(step, s);
    }
    Payload given, made;
    if (of_inputs && here.outputs > 0 && samples > 0) {
      given = std::move(step->gradients.at(place));
      step->gradients.erase(place);
    }
    if (of_inputs) made = crossings_.room(crossing);
    const ConstView from = given.view();
    const View to = made.view();
    model::StepCost cost =
        model::backward_cost(setup_.model->spec(), static_cast<double>(own_samples(here, samples)),
                             here.segments, which, setup_.binding, setup_.activations);
    tensor::Kernel kernel{kBackward, cost.cost,
                          [this, copy, i = *index, micro, which, from, to, last](tensor::Milestones& marks) {
                            use(copy);
                            staged_.backward(i, micro, which, from, to, last, marks);
                          }};
    if (last && which != model::Gradients::OfInputs) {
      kernel.mark_shares = std::move(cost.bucket_shares);
      auto completing = complete(step, std::move(kernel), static_cast<int>(here.segments.begin));
      co_await completing;
    } else {
      auto passing = pass(step, kBackward, std::move(kernel));
      co_await passing;
    }
    if (which != model::Gradients::OfInputs) step->inputs.erase(place);
    if (!made) continue;
    if (*index != own.front()) {
      auto carrying = carry(step, crossing, &made);
      co_await carrying;
      step->gradients[{*index - 1, action.micro}] = made;
    } else if (holds(action.stage - 1)) {
      step->gradients[{pieces_of(action.stage - 1).back(), action.micro}] = made;
    } else {
      step->input_gradients[{action.stage, action.micro}] = made;
    }
  }
}

/// Until gradients of the segment may be written.
task::Task<void> StagedPass::room(Step* step, std::size_t segment) {
  const Instant begin = runtime_.executor().now();
  co_await step->flight->exchange->room(static_cast<int>(segment));
  step->done.idle += runtime_.executor().now() - begin;
}

/// Begins it; what it reads stays until it has left.
void StagedPass::send(Step* step, Action action) {
  const bool forward = action.kind == ActionKind::SendActivation;
  auto& leaving = forward ? step->outputs : step->input_gradients;
  const auto found = leaving.find({action.stage, action.micro});
  if (found == leaving.end()) return;  // of no samples
  const Payload payload = std::move(found->second);
  leaving.erase(found);
  if (payload.range.size == 0) return;
  const int to = program::counterpart(action).stage;
  const std::uint32_t unit =
      pass_unit(forward ? Handed::Activations : Handed::Gradients, to, action.micro, program_.micros);
  const net::Tag tag = setup_.replica->pipeline.begin(net::Operation::User, unit);
  step->transfers.spawn(transmit(holder(to), tag, payload));
}

void StagedPass::expect(Step* step, Action action) {
  const bool forward = action.kind == ActionKind::ReceiveActivation;
  const std::vector<int> own = pieces_of(action.stage);
  const model::Piece& end = piece(forward ? own.front() : own.back());
  const std::size_t samples = own_samples(end, micro_batch(*step, action.micro).samples().size);
  const std::size_t elements = samples * static_cast<std::size_t>(forward ? end.inputs : end.outputs);
  if (elements == 0) return;
  const std::uint32_t unit = pass_unit(forward ? Handed::Activations : Handed::Gradients, action.stage,
                                       action.micro, program_.micros);
  const net::Tag tag = setup_.replica->pipeline.begin(net::Operation::User, unit);
  Arrival& arrival = step->arrivals[{action.kind, {action.stage, action.micro}}];
  arrival.payload = {pool_.lend(elements), {0, elements}};
  arrival.here = std::make_unique<task::Event>(runtime_.executor(), runtime_.pending());
  step->transfers.spawn(take_in(holder(program::counterpart(action).stage), tag, &arrival));
}

task::Task<void> StagedPass::transmit(Rank peer, net::Tag tag, Payload payload) {
  net::SendOp sending(runtime_.transport, peer, tag, payload.view(), pool_.type());
  co_await sending;
}

task::Task<void> StagedPass::take_in(Rank peer, net::Tag tag, Arrival* arrival) {
  net::RecvOp receiving(runtime_.transport, peer, tag, arrival->payload.view(), pool_.type());
  co_await receiving;
  arrival->here->set();
}

task::Task<void> StagedPass::receive(Step* step, Action action) {
  const std::vector<int> own = pieces_of(action.stage);
  const bool forward = action.kind == ActionKind::ReceiveActivation;
  Payload& received =
      forward ? step->inputs[{own.front(), action.micro}] : step->gradients[{own.back(), action.micro}];
  const auto found = step->arrivals.find({action.kind, {action.stage, action.micro}});
  if (found == step->arrivals.end()) co_return;  // of no samples
  const Instant begin = runtime_.executor().now();
  auto arriving = found->second.here->wait("stage", program::describe(action));
  co_await arriving;
  step->done.idle += runtime_.executor().now() - begin;
  received = found->second.payload;
  step->arrivals.erase(found);
}

std::size_t StagedPass::own_samples(const model::Piece& piece, std::size_t samples) const {
  const model::ModelSpec& spec = setup_.model->spec();
  return piece.own({0, samples}, spec.members, spec.member).size;
}

task::Task<void> StagedPass::carry(Step* step, Crossing crossing, Payload* values) {
  const Instant begin = runtime_.executor().now();
  auto carrying = crossings_.carry(crossing, values);
  co_await carrying;
  step->done.idle += runtime_.executor().now() - begin;
}

task::Task<void> StagedPass::pass(Step* step, const char* name, tensor::Kernel kernel) {
  const Instant begin = runtime_.executor().now();
  auto passing = tensor::run(runtime_.device, runtime_.pending(), tensor::Stream::Compute, std::move(kernel));
  co_await passing;
  step->done.busy += runtime_.executor().now() - begin;
  runtime_.recorder.add({"compute", name, -1, 0, begin, runtime_.executor().now()});
}

/// Buckets are complete by its marks.
task::Task<void> StagedPass::complete(Step* step, tensor::Kernel kernel, int segment) {
  const Instant begin = runtime_.executor().now();
  kernel.marks = static_cast<int>(setup_.binding.buckets.size());
  tensor::KernelHandle& handle =
      step->flight->add(std::make_unique<tensor::KernelHandle>(runtime_.device, runtime_.pending(),
                                                               tensor::Stream::Compute, std::move(kernel)),
                        segment);
  co_await handle.finished();
  step->done.busy += runtime_.executor().now() - begin;
  runtime_.recorder.add({"compute", kBackward, -1, 0, begin, runtime_.executor().now()});
}

task::Task<model::StepOutput> StagedPass::evaluate(const data::Dataset* dataset,
                                                   std::vector<std::int64_t> indices) {
  model::StepOutput output;
  std::exception_ptr error;
  if (!setup_.parameters) {
    output = co_await pass_forward(dataset, std::move(indices));
    co_return output;
  }
  try {
    auto passing = pass_forward(dataset, std::move(indices));
    output = co_await passing;
  } catch (...) {
    error = std::current_exception();
    if (!runtime_.pending().cancelled()) runtime_.pending().cancel(error);
  }
  try {
    co_await setup_.parameters->close();
  } catch (...) {
    if (!error) error = std::current_exception();
  }
  if (error) std::rethrow_exception(error);
  co_return output;
}

task::Task<model::StepOutput> StagedPass::pass_forward(const data::Dataset* dataset,
                                                       std::vector<std::int64_t> indices) {
  const std::size_t samples = indices.size();
  data::Samples read;
  model::StepOutput output;
  Payload values;  // that leave the piece before
  if (samples == 0 && !setup_.parameters) co_return output;
  const int micros = program_.micros, segments = static_cast<int>(setup_.model->spec().segments.size());
  comm::Communicator& pipeline = setup_.replica->pipeline;
  for (int stage = 0; stage < program_.stages; ++stage) {
    if (!holds(stage)) continue;
    const std::vector<int> own = pieces_of(stage);
    if (stage > 0 && !holds(stage - 1)) {
      const model::Piece& first = piece(own.front());
      const std::size_t elements = own_samples(first, samples) * static_cast<std::size_t>(first.inputs);
      values = {};
      if (elements > 0) {
        values = {pool_.lend(elements), {0, elements}};
        const net::Tag tag =
            pipeline.begin(net::Operation::User, pass_unit(Handed::Evaluated, stage, 0, micros));
        net::RecvOp receiving(runtime_.transport, holder(stage - 1), tag, values.view(), pool_.type());
        co_await receiving;
      }
    }
    for (int index : own) {
      const model::Piece& here = piece(index);
      if (setup_.parameters && here.segments.size > 0) {
        const auto segment = static_cast<int>(here.segments.begin);
        std::vector<int> ahead;
        for (int next = segment + 1; next <= std::min(segment + setup_.ahead, segments - 1); ++next)
          ahead.push_back(next);
        auto opening = setup_.parameters->open(segment, std::move(ahead));
        co_await opening;
      }
      if (samples == 0) continue;
      const Crossing crossing = onward(pieces(), index, samples);
      Payload next = crossings_.room(crossing);
      const ConstView from = here.inputs > 0 ? values.view() : View();
      const View to = next.view();
      auto cost = cost_of(here, samples, here.segments);
      auto passing = on_compute(
          &runtime_, "evaluate",
          [&, index, from, to] {
            if (read.labels.empty()) read = data::read_samples(*dataset, indices);
            output += staged_.evaluate(index, read.inputs(), read.labels, from, to);
          },
          cost);
      co_await passing;
      auto carrying = crossings_.carry(crossing, &next);
      co_await carrying;
      values = std::move(next);
    }
    if (stage + 1 < program_.stages && !holds(stage + 1) && values.range.size > 0) {
      const net::Tag tag =
          pipeline.begin(net::Operation::User, pass_unit(Handed::Evaluated, stage + 1, 0, micros));
      auto sending = transmit(holder(stage + 1), tag, std::move(values));
      co_await sending;
    }
  }
  if (!counts_output()) output = {};
  co_return output;
}

}  // namespace taxon::train
