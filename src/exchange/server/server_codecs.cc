#include "exchange/server/server_codecs.h"

#include <cstring>

#include "comm/sum.h"
#include "exchange/compression/coded.h"
#include "exchange/compression/compressed_reduce.h"
#include "exchange/kernels.h"
#include "task/scope.h"

namespace taxon::exchange {
namespace {

std::unique_ptr<Coder> coder_of_answers(const TopologyContext& context) {
  if (context.level.codec.answer == "none") return {};
  plan::LevelPlan level = context.level;
  level.codec.name = level.codec.answer;
  // What an answer lacks is in the next difference.
  level.codec.feedback = plan::FeedbackKind::None;
  level.codec.momentum = 0;
  TopologyContext back{level};
  back.seed = context.seed;
  back.codecs = context.codecs;
  return std::make_unique<Coder>(back);
}

LevelTransfer transfer_of(const OwnedPart& part, std::int64_t round) {
  return {static_cast<std::uint32_t>(part.id()), 0, part.range, {}, round};
}

task::Task<void> ask(Channel* worker, View question, View response) {
  co_await worker->say(ServerWire::Question, question);
  co_await worker->hear(ServerWire::Response, response);
}

}  // namespace

ServerCoders::ServerCoders(const TopologyContext& context)
    : contributions(is_coded(context.level) ? std::make_unique<Coder>(context) : nullptr),
      answers(coder_of_answers(context)) {}

ServerCodecs::ServerCodecs(comm::Communicator& group, std::unique_ptr<ServerCoders> coders,
                           const ServerState& owner)
    : group_(group), coders_(std::move(coders)), owner_(owner) {}

void ServerCodecs::prepare(OwnedPart* part, std::size_t whole, const std::vector<tensor::Slot>& slots,
                           const tensor::Arena& weights) {
  part->values = BufferPool(weights.type(), part->range.size, weights.bytes());
  if (!coders_) return;
  auto wire = [&](const std::unique_ptr<Coder>& coder) -> std::optional<std::size_t> {
    if (!coder || coder->leaves_dense(whole, 0)) return {};
    coder->know(slots);
    return coder->wire_bytes(part->range.size, 0);
  };
  part->contribution_wire = wire(coders_->contributions);
  part->answer_wire = wire(coders_->answers);
  if (part->contribution_wire && coders_->query()) {
    part->asks = &coders_->contributions->codec();
    part->answer_wire = answer_bytes(*part->asks->coordinate_query(), part->range.size);
  }
  part->contribution_wires = BufferPool(DType::UInt8, part->contribution_wire.value_or(0), weights.bytes());
  part->answer_wires = BufferPool(DType::UInt8, part->answer_wire.value_or(0), weights.bytes());
}

void ServerCodecs::prepare(std::size_t owned, int workers, const tensor::Arena& weights) {
  if (!coders_ || !coders_->answers) return;
  for (int worker = 0; worker < workers; ++worker)
    given_.emplace_back(weights.type(), owned, weights.bytes());
}

void ServerCodecs::begin(const OwnedPart& part, const tensor::Arena& weights) const {
  for (const tensor::Arena& given : given_)
    if (part.range.size > 0)
      std::memcpy(given.bytes({part.state, part.range.size}).data(), weights.bytes(part.range).data(),
                  part.range.size * sizeof(float));
}

std::vector<std::pair<std::string, tensor::Arena*>> ServerCodecs::state() {
  std::vector<std::pair<std::string, tensor::Arena*>> state;
  for (std::size_t worker = 0; worker < given_.size(); ++worker)
    state.emplace_back("given " + std::to_string(worker), &given_[worker]);
  return state;
}

task::Task<void> ServerCodecs::decode(const OwnedPart* part, int worker, std::int64_t round, View wire,
                                      View values) {
  const CompressedReduce reduce =
      coders_->contributions->reduce_of_part(group_, transfer_of(*part, round), values);
  ReduceKernels kernels(reduce);
  co_await kernels.decode(wire, kernels.all(), codec::Into::Assign, worker);
}

task::Task<void> ServerCodecs::answer_difference(const OwnedPart* part, int worker, std::int64_t version,
                                                 View wire) {
  const LevelTransfer transfer = transfer_of(*part, ServerCoders::round_of_answer(version));
  const View given = given_[static_cast<std::size_t>(worker)].bytes({part->state, part->range.size});
  comm::Scratch way(group_.scratch(), given.size(), given);
  auto subtracted = run_kernel(group_.runtime(), "difference", part->id(),
                               {static_cast<double>(part->range.size), 3 * given.size()},
                               [this, part, given, to = way.bytes()](tensor::Milestones&) {
                                 auto now = owner_.values().values<float>(part->range);
                                 auto before = as_span<float>(given);
                                 auto difference = as_span<float>(to);
                                 for (std::size_t i = 0; i < now.size(); ++i)
                                   difference[i] = now[i] - before[i];
                               });
  co_await subtracted;
  {
    const CompressedReduce reduce = coders_->answers->reduce_of_part(group_, transfer, way.bytes());
    ReduceKernels kernels(reduce);
    co_await kernels.encode(kernels.all(), wire, 0);
  }
  const CompressedReduce reduce = coders_->answers->reduce_of_part(group_, transfer, given);
  ReduceKernels kernels(reduce);
  co_await kernels.decode(wire, kernels.all(), codec::Into::Add);
}

task::Task<void> ServerCodecs::query(OwnedPart* part, std::int64_t round, std::vector<View> wires,
                                     std::vector<Channel*> workers, View values) {
  const codec::Codec& codec = *part->asks;
  co_await add_wires(part, codec.rounds()[0].type, &wires);
  const CompressedReduce reduce =
      coders_->contributions->reduce_of_part(group_, transfer_of(*part, round), values);
  ReduceKernels kernels(reduce);
  comm::ScratchPool& scratch = group_.scratch();
  comm::Scratch question(scratch, codec.coordinate_query()->question_bytes(part->range.size), values);
  co_await kernels.ask(wires[0], question.bytes());
  const std::size_t each = codec.wire_bytes(1, part->range.size);
  comm::Scratch room(scratch, workers.size() * round_to_line(each), values);
  std::vector<View> responses;
  task::Scope questions(group_.runtime().pending());
  for (Channel* worker : workers) {
    responses.push_back(room.bytes().slice(responses.size() * round_to_line(each), each));
    questions.spawn(ask(worker, question.bytes(), responses.back()));
  }
  co_await questions.join();
  co_await add_wires(part, codec.rounds()[1].type, &responses);
  co_await kernels.decode(responses[0], kernels.all(), codec::Into::Assign);
  co_await kernels.find(responses[0], &part->chosen);
}

/// The first := the sum of all, in their order.
task::Task<void> ServerCodecs::add_wires(const OwnedPart* part, DType type, const std::vector<View>* wires) {
  const std::size_t bytes = wires->front().size();
  auto summed =
      run_kernel(group_.runtime(), "server sum", part->id(),
                 {static_cast<double>(wires->size() * bytes / size_of(type)), (wires->size() + 1) * bytes},
                 [type, wires](tensor::Milestones&) {
                   if (wires->size() < 2) return;
                   const std::vector<ConstView> sources(wires->begin(), wires->end());
                   comm::sum_into(type, wires->front(), sources);
                 });
  co_await summed;
}

task::Task<void> ServerCodecs::answer_chosen(const OwnedPart* part, View wire) {
  auto written = run_kernel(group_.runtime(), "answer", part->id(), {0, 4 * wire.size()},
                            [this, part, wire](tensor::Milestones&) {
                              write_answer(wire, part->chosen, owner_.values().values<float>(part->range),
                                           *part->asks->coordinate_query());
                            });
  co_await written;
}

}  // namespace taxon::exchange
