#include "train/staged_pass.h"

#include <algorithm>
#include <optional>

#include "comm/collectives.h"
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

/// The index of the last action of each stage that makes gradients of weights.
std::map<int, std::size_t> last_gradients(const std::vector<Action>& actions) {
  std::map<int, std::size_t> last;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (program::makes_weight_gradient(actions[i].kind)) last[actions[i].stage] = i;
  return last;
}

}  // namespace

ActivationPool::Lent ActivationPool::lend(std::size_t elements) {
  auto found = free_.lower_bound(elements);
  std::unique_ptr<tensor::Arena> arena;
  constexpr std::size_t kWaste = 2;
  if (found != free_.end() && found->first <= kWaste * elements) {
    arena = std::move(found->second);
    free_.erase(found);
  } else {
    arena = std::make_unique<tensor::Arena>(transport_, type_, elements);
  }
  tensor::Arena* const lent = arena.release();
  return Lent(lent, [this](tensor::Arena* back) {
    free_.emplace(back->size(), std::unique_ptr<tensor::Arena>(back));
  });
}

/// What is under way between the actions of a step.
struct StagedPass::Step {
  explicit Step(comm::Runtime& runtime) : transfers(runtime.pending()) {}
  const model::StepInput* input = nullptr;
  Flight* flight = nullptr;
  Done done;
  std::size_t expected = 0;                  // actions whose receives have begun
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
      pool_(runtime.transport, setup_.type) {}

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
  return {step.input, micro, program_.micros};
}

task::Task<StagedPass::Done> StagedPass::run(const model::StepInput* input, Flight* flight) {
  Step step(runtime_);
  step.input = input;
  step.flight = flight;
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
  if (error) {
    auto abandon = on_compute(&runtime_, "abandon step", [this] { staged_.abandon_step(); });
    co_await abandon;
    std::rethrow_exception(error);
  }
  co_return step.done;
}

/// Exchanges are the marks of backward passes, and updates follow them by themselves.
task::Task<void> StagedPass::carry_out(Step* step) {
  tensor::Kernel begin{kForward, {}, [this, step](tensor::Milestones&) { staged_.begin_step(*step->input); }};
  auto beginning = pass(step, kForward, std::move(begin));
  co_await beginning;
  const auto last = last_gradients(actions());
  for (std::size_t i = 0; i < actions().size(); ++i) {
    const Action action = actions()[i];
    if (program::computes(action.kind)) expect_until_next_pass(step, i);
    if (action.kind == ActionKind::Forward) {
      auto passing = forward(step, action);
      co_await passing;
    } else if (program::computes(action.kind)) {
      auto passing = backward(step, action, last.at(action.stage) == i);
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
    }
  }
  tensor::Kernel end{
      kBackward, {}, [this, step](tensor::Milestones&) { step->done.output = staged_.end_step(); }};
  auto ending = pass(step, kBackward, std::move(end));
  co_await ending;
  if (!counts_output()) step->done.output = {};
}

/// Begins the receives that the pass after this one needs, so that they go on beside it.
void StagedPass::expect_until_next_pass(Step* step, std::size_t at) {
  std::size_t until = at + 1;
  while (until < actions().size() && !program::computes(actions()[until].kind)) ++until;
  for (std::size_t i = std::max(at, step->expected); i < until; ++i)
    if (program::receives(actions()[i].kind)) expect(step, actions()[i]);
  step->expected = std::max(step->expected, until);
}

task::Task<void> StagedPass::forward(Step* step, Action action) {
  const model::MicroBatch micro = micro_batch(*step, action.micro);
  const std::size_t samples = micro.samples().size;
  const std::vector<int> own = pieces_of(action.stage);
  for (int index : own) {
    const model::Piece& here = piece(index);
    const Place place{index, action.micro};
    const std::size_t outputs = samples * static_cast<std::size_t>(here.outputs);
    const Payload input = here.inputs > 0 && samples > 0 ? step->inputs.at(place) : Payload();
    Payload output = room_for(here.forward, outputs);
    const ConstView from = input.view();
    const View to = output.view();
    tensor::Kernel kernel{
        kForward,
        model::forward_cost(setup_.model->spec(), static_cast<double>(samples),
                            static_cast<int>(here.segments.begin), static_cast<int>(here.segments.end())),
        [this, index, micro, from, to](tensor::Milestones&) { staged_.forward(index, micro, from, to); }};
    auto passing = pass(step, kForward, std::move(kernel));
    co_await passing;
    if (!output) continue;
    const Instant begin = runtime_.executor().now();
    auto moving = move(here.forward, index, &output);
    co_await moving;
    step->done.idle += runtime_.executor().now() - begin;
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
  const std::size_t samples = micro.samples().size;
  const model::Gradients which = gradients_of(action.kind);
  const std::vector<int> own = pieces_of(action.stage);
  for (auto index = own.rbegin(); index != own.rend(); ++index) {
    const model::Piece& here = piece(*index);
    const Place place{*index, action.micro};
    const std::size_t inputs = samples * static_cast<std::size_t>(here.inputs);
    const bool of_inputs = which != model::Gradients::OfWeights;
    Payload given, made;
    const bool is_first = *index == own.front();
    const auto movement = is_first ? parallel::Movement::None : piece(*index - 1).backward;
    if (of_inputs && here.outputs > 0 && samples > 0) {
      given = std::move(step->gradients.at(place));
      step->gradients.erase(place);
    }
    if (of_inputs) made = room_for(movement, inputs);
    const ConstView from = given.view();
    const View to = made.view();
    model::StepCost cost = model::backward_cost(setup_.model->spec(), static_cast<double>(samples),
                                                here.segments, which, setup_.binding);
    tensor::Kernel kernel{kBackward, cost.cost,
                          [this, i = *index, micro, which, from, to, last](tensor::Milestones& marks) {
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
    if (!is_first) {
      const Instant begin = runtime_.executor().now();
      auto moving = move(movement, *index, &made);
      co_await moving;
      step->done.idle += runtime_.executor().now() - begin;
      step->gradients[{*index - 1, action.micro}] = made;
    } else if (holds(action.stage - 1)) {
      step->gradients[{pieces_of(action.stage - 1).back(), action.micro}] = made;
    } else {
      step->input_gradients[{action.stage, action.micro}] = made;
    }
  }
}

/// Begins it; what it reads stays until it has left.
void StagedPass::send(Step* step, Action action) {
  const std::size_t samples = micro_batch(*step, action.micro).samples().size;
  if (samples == 0) return;
  const bool forward = action.kind == ActionKind::SendActivation;
  auto& leaving = forward ? step->outputs : step->input_gradients;
  const auto found = leaving.find({action.stage, action.micro});
  const int to = program::counterpart(action).stage;
  const std::uint32_t unit =
      pass_unit(forward ? Handed::Activations : Handed::Gradients, to, action.micro, program_.micros);
  const net::Tag tag = setup_.replica->pipeline.begin(net::Operation::User, unit);
  step->transfers.spawn(transmit(holder(to), tag, std::move(found->second)));
  leaving.erase(found);
}

void StagedPass::expect(Step* step, Action action) {
  const std::size_t samples = micro_batch(*step, action.micro).samples().size;
  if (samples == 0) return;
  const bool forward = action.kind == ActionKind::ReceiveActivation;
  const std::vector<int> own = pieces_of(action.stage);
  const std::int64_t each = forward ? piece(own.front()).inputs : piece(own.back()).outputs;
  const std::size_t elements = samples * static_cast<std::size_t>(each);
  const std::uint32_t unit = pass_unit(forward ? Handed::Activations : Handed::Gradients, action.stage,
                                       action.micro, program_.micros);
  const net::Tag tag = setup_.replica->pipeline.begin(net::Operation::User, unit);
  Arrival& arrival = step->arrivals[{action.kind, {action.stage, action.micro}}];
  arrival.payload = room_for(parallel::Movement::None, elements);
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
  const auto found = step->arrivals.find({action.kind, {action.stage, action.micro}});
  if (found == step->arrivals.end()) co_return;  // of no samples
  const Instant begin = runtime_.executor().now();
  auto arriving = found->second.here->wait("stage", program::describe(action));
  co_await arriving;
  step->done.idle += runtime_.executor().now() - begin;
  const std::vector<int> own = pieces_of(action.stage);
  if (action.kind == ActionKind::ReceiveActivation)
    step->inputs[{own.front(), action.micro}] = found->second.payload;
  else
    step->gradients[{own.back(), action.micro}] = found->second.payload;
  step->arrivals.erase(found);
}

StagedPass::Payload StagedPass::room_for(parallel::Movement movement, std::size_t elements) {
  if (elements == 0) return {};
  const bool gathers = movement == parallel::Movement::AllGather;
  const auto members = static_cast<std::size_t>(gathers ? setup_.replica->tensor.size() : 1);
  const auto member = static_cast<std::size_t>(gathers ? setup_.replica->tensor.rank() : 0);
  return {pool_.lend(elements * members), {member * elements, elements}};
}

/// Brings a piece's values to where the next one needs them, over the tensor axis (model::Piece).
task::Task<void> StagedPass::move(parallel::Movement movement, int piece, Payload* values) {
  struct Row {  // of each movement that members make, in the order of the enum
    std::optional<net::Operation> collective;
    bool gathers = false, parts = false;
  };
  static constexpr Row kRows[] = {{},
                                  {.parts = true},
                                  {net::Operation::AllGather, true},
                                  {net::Operation::AllReduce},
                                  {net::Operation::ReduceScatter, false, true}};
  comm::Communicator& group = setup_.replica->tensor;
  const auto index = static_cast<std::size_t>(movement);
  if (group.size() == 1 || !*values) co_return;
  TAXON_CHECK(index < std::size(kRows), "pieces don't move by ", plan::to_string(movement));
  const Row& row = kRows[index];
  const auto members = static_cast<std::size_t>(group.size());
  if (row.gathers) values->range = {0, values->range.size * members};
  if (row.collective) {
    const comm::Call call{values->view(), pool_.type(), kPieceUnit + static_cast<std::uint32_t>(piece)};
    const comm::CollectiveRow& ring = comm::find_row(*row.collective, "ring");
    co_await ring.run(group, call);
  }
  if (row.parts) values->range = part(values->range, members, static_cast<std::size_t>(group.rank()));
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
  const std::size_t samples = indices.size();
  data::Samples read;
  model::StepOutput output;
  Payload values;  // that leave the piece before
  if (samples == 0) co_return output;
  const int micros = program_.micros;
  comm::Communicator& pipeline = setup_.replica->pipeline;
  for (int stage = 0; stage < program_.stages; ++stage) {
    if (!holds(stage)) continue;
    const std::vector<int> own = pieces_of(stage);
    if (stage > 0 && !holds(stage - 1)) {
      const std::size_t elements = samples * static_cast<std::size_t>(piece(own.front()).inputs);
      values = room_for(parallel::Movement::None, elements);
      const net::Tag tag =
          pipeline.begin(net::Operation::User, pass_unit(Handed::Evaluated, stage, 0, micros));
      net::RecvOp receiving(runtime_.transport, holder(stage - 1), tag, values.view(), pool_.type());
      co_await receiving;
    }
    for (int index : own) {
      const model::Piece& here = piece(index);
      Payload next = room_for(here.forward, samples * static_cast<std::size_t>(here.outputs));
      const ConstView from = here.inputs > 0 ? values.view() : View();
      const View to = next.view();
      auto cost =
          model::forward_cost(setup_.model->spec(), static_cast<double>(samples),
                              static_cast<int>(here.segments.begin), static_cast<int>(here.segments.end()));
      auto passing = on_compute(
          &runtime_, "evaluate",
          [&, index, from, to] {
            if (read.labels.empty()) read = data::read_samples(*dataset, indices);
            output += staged_.evaluate(index, read.inputs(), read.labels, from, to);
          },
          cost);
      co_await passing;
      auto moving = move(here.forward, index, &next);
      co_await moving;
      values = std::move(next);
    }
    if (stage + 1 < program_.stages && !holds(stage + 1)) {
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
