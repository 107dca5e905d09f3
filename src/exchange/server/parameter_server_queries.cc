// What a server does with contributions whose codec asks for more (Sketched-SGD).
#include "comm/sum.h"
#include "exchange/compression/compressed_reduce.h"
#include "exchange/server/parameter_server.h"
#include "task/scope.h"

namespace taxon::exchange {

/// All workers are here and wait: sketches are added up, the sum says where the large values must be, the
/// workers say what they are.
task::Task<void> ParameterServer::inquire(Unit* unit,
                                          const std::vector<ConsistencyController::Pooled>* update,
                                          const std::vector<Contribution>* taken,
                                          const tensor::Arena* values) {
  const codec::Codec& codec = *unit->asks;
  std::vector<View> wires;
  for (const Contribution& contribution : *taken) wires.push_back(contribution.values->bytes());
  auto adding = add_wires(unit, codec.rounds()[0].type, &wires);
  co_await adding;
  const LevelTransfer transfer{
      static_cast<std::uint32_t>(unit->bucket->id.value()), 0, unit->range, {}, taken->front().round};
  const CompressedReduce reduce =
      setup_.coders->contributions->reduce_of_part(*setup_.group, transfer, values->bytes());
  ReduceKernels kernels(reduce);
  comm::ScratchPool& scratch = setup_.group->scratch();
  comm::Scratch question(scratch, codec.coordinate_query()->question_bytes(unit->range.size),
                         values->bytes());
  auto asking = kernels.ask(wires[0], question.bytes());
  co_await asking;
  const std::size_t each = codec.wire_bytes(1, unit->range.size);
  comm::Scratch room(scratch, update->size() * codec::padded(each), values->bytes());
  std::vector<View> responses;
  task::Scope questions(runtime_.pending());
  for (const ConsistencyController::Pooled& pooled : *update) {
    responses.push_back(room.bytes().slice(responses.size() * codec::padded(each), each));
    questions.spawn(ask(unit, pooled.worker, question.bytes(), responses.back()));
  }
  co_await questions.join();
  auto summing = add_wires(unit, codec.rounds()[1].type, &responses);
  co_await summing;
  auto decoding = kernels.decode(responses[0], kernels.all(), codec::Into::Assign);
  co_await decoding;
  auto finding = kernels.find(responses[0], &unit->chosen);
  co_await finding;
}

/// The first := the sum of all, in the order of workers.
task::Task<void> ParameterServer::add_wires(Unit* unit, DType type, const std::vector<View>* wires) {
  const std::size_t bytes = wires->front().size();
  tensor::Kernel kernel{
      "server sum",
      {static_cast<double>(wires->size() * bytes / size_of(type)), (wires->size() + 1) * bytes},
      [type, wires](tensor::Milestones&) {
        if (wires->size() < 2) return;
        const std::vector<ConstView> sources(wires->begin(), wires->end());
        comm::sum_into(type, wires->front(), sources);
      }};
  auto summed = run("server sum", std::move(kernel), unit);
  co_await summed;
}

task::Task<void> ParameterServer::ask(Unit* unit, int worker, View question, View response) {
  comm::Communicator& group = *setup_.group;
  const Rank peer = group.global(worker);
  const auto id = static_cast<std::uint32_t>(unit->bucket->id.value());
  const std::uint32_t context = unit->uses[static_cast<std::size_t>(worker)];
  {
    net::SendOp asks(runtime_.transport, peer, ServerWire::tag(group, id, context, ServerWire::Question),
                     question, DType::UInt8);
    co_await asks;
  }
  net::RecvOp hears(runtime_.transport, peer, ServerWire::tag(group, id, context, ServerWire::Response),
                    response, DType::UInt8);
  co_await hears;
}

task::Task<void> ParameterServer::answer_chosen(Unit* unit, int worker) {
  Buffer wire = take_answer(unit);
  tensor::Kernel kernel{
      "answer", {0, 4 * wire->bytes().size()}, [this, unit, out = wire->bytes()](tensor::Milestones&) {
        write_answer(out, unit->chosen, setup_.owner->values().values<float>(unit->range),
                     *unit->asks->coordinate_query());
      }};
  auto written = run("answer", std::move(kernel), unit);
  co_await written;
  unit->slots[static_cast<std::size_t>(worker)].answer = std::move(wire);
}

}  // namespace taxon::exchange
