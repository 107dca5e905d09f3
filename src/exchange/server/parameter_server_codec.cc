// What of a server's side is about codecs.
#include <cstring>

#include "exchange/compression/compressed_reduce.h"
#include "exchange/server/parameter_server.h"

namespace taxon::exchange {

void ParameterServer::prepare_codecs() {
  if (!setup_.coders) return;
  std::size_t owned = 0;
  for (std::size_t b = 0; b < units_.size(); ++b) {
    Unit& unit = *units_[b];
    const std::size_t whole = setup_.ranges.empty() ? unit.bucket->range.size : setup_.ranges[b].size;
    auto wire = [&](const std::unique_ptr<Coder>& coder) -> std::optional<std::size_t> {
      if (!coder || coder->leaves_dense(whole, 0)) return {};
      coder->know(setup_.layout->arena.slots());
      return coder->wire_bytes(unit.range.size, 0);
    };
    unit.contribution_wire = wire(setup_.coders->contributions);
    unit.answer_wire = wire(setup_.coders->answers);
    if (unit.contribution_wire && setup_.coders->query()) {
      unit.asks = &setup_.coders->contributions->codec();
      unit.answer_wire = answer_bytes(*unit.asks->coordinate_query(), unit.range.size);
    }
    owned += unit.range.size;
  }
  if (!setup_.coders->answers) return;
  for (int worker = 0; worker < setup_.roles.workers(); ++worker)
    given_.emplace_back(setup_.weights->type(), owned, setup_.weights->bytes());
}

std::vector<std::pair<std::string, tensor::Arena*>> ParameterServer::state() {
  std::vector<std::pair<std::string, tensor::Arena*>> state;
  if (late_) state = late_->state();
  for (std::size_t worker = 0; worker < given_.size(); ++worker)
    state.emplace_back("given " + std::to_string(worker), &given_[worker]);
  return state;
}

task::Task<void> ParameterServer::decode(Unit* unit, int worker, std::int64_t round,
                                         const tensor::Arena* wire, const tensor::Arena* values) {
  const LevelTransfer transfer{
      static_cast<std::uint32_t>(unit->bucket->id.value()), 0, unit->range, {}, round};
  const CompressedReduce reduce =
      setup_.coders->contributions->reduce_of_part(*setup_.group, transfer, values->bytes());
  ReduceKernels kernels(reduce);
  auto decoding = kernels.decode(wire->bytes(), kernels.all(), codec::Into::Assign, worker);
  co_await decoding;
}

/// How far the owner's values went from what the worker has, which afterwards is what it has.
task::Task<void> ParameterServer::answer_difference(Unit* unit, int worker) {
  const LevelTransfer transfer{static_cast<std::uint32_t>(unit->bucket->id.value()),
                               0,
                               unit->range,
                               {},
                               ServerCoders::round_of_answer(unit->controller.version())};
  const tensor::Arena& owned = setup_.owner->values();
  const View given = given_[static_cast<std::size_t>(worker)].bytes({unit->state, unit->range.size});
  comm::Scratch way(setup_.group->scratch(), given.size(), given);
  tensor::Kernel kernel{"difference",
                        {static_cast<double>(unit->range.size), 3 * given.size()},
                        [&owned, unit, given, to = way.bytes()](tensor::Milestones&) {
                          auto now = owned.values<float>(unit->range);
                          auto before = as_span<float>(given);
                          auto difference = as_span<float>(to);
                          for (std::size_t i = 0; i < now.size(); ++i) difference[i] = now[i] - before[i];
                        }};
  auto subtracted = run("difference", std::move(kernel), unit);
  co_await subtracted;
  Buffer wire = take_answer(unit);
  Coder& coder = *setup_.coders->answers;
  {
    const CompressedReduce reduce = coder.reduce_of_part(*setup_.group, transfer, way.bytes());
    ReduceKernels kernels(reduce);
    auto encoding = kernels.encode(kernels.all(), wire->bytes(), 0);
    co_await encoding;
  }
  const CompressedReduce reduce = coder.reduce_of_part(*setup_.group, transfer, given);
  ReduceKernels kernels(reduce);
  auto decoding = kernels.decode(wire->bytes(), kernels.all(), codec::Into::Add);
  co_await decoding;
  unit->slots[static_cast<std::size_t>(worker)].answer = std::move(wire);
}

ParameterServer::Buffer ParameterServer::take_answer(Unit* unit) {
  if (unit->free_answers.empty())
    return std::make_unique<tensor::Arena>(DType::UInt8, *unit->answer_wire, setup_.weights->bytes());
  Buffer wire = std::move(unit->free_answers.back());
  unit->free_answers.pop_back();
  return wire;
}

void ParameterServer::keep(Unit* unit, Buffer answer) {
  (unit->answer_wire ? unit->free_answers : unit->free).push_back(std::move(answer));
}

}  // namespace taxon::exchange
