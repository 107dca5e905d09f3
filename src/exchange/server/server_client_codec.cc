// What of a worker's side of servers is about codecs.
#include "codec/wire.h"
#include "exchange/compression/coded.h"
#include "exchange/compression/compressed_reduce.h"
#include "exchange/compression/selected_entries.h"
#include "exchange/server/server_client.h"
#include "task/scope.h"

namespace taxon::exchange {

void ServerClient::prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) {
  if (coders_.answers) coders_.answers->know(slots);
  if (coders_.contributions && roles_.works(group_.rank())) coders_.contributions->prepare(like, slots);
}

std::vector<StateArena> ServerClient::state() const {
  return coders_.contributions ? coders_.contributions->state() : std::vector<StateArena>();
}

const CodecWork* ServerClient::codec_work() const {
  return coders_.contributions ? &coders_.contributions->work() : nullptr;
}

bool ServerClient::asked(Range range) const {
  return coders_.query() && !coders_.contributions->leaves_dense(range.size, 0);
}

std::vector<std::size_t> ServerClient::sizes(Wires kind, Range range) const {
  const bool answers = kind == Wires::Answer && !coders_.query();
  const Coder* coder = (answers ? coders_.answers : coders_.contributions).get();
  std::vector<std::size_t> sizes;
  if (!coder || coder->leaves_dense(range.size, 0)) return sizes;
  const codec::Codec& codec = coder->codec();
  for (int server = 0; server < roles_.servers(); ++server) {
    const std::size_t count = roles_.part_of(range, server).size;
    if (kind == Wires::Contribution || answers)
      sizes.push_back(coder->wire_bytes(count, 0));
    else if (kind == Wires::Question)
      sizes.push_back(codec.coordinate_query()->question_bytes(count));
    else if (kind == Wires::Response)
      sizes.push_back(codec.wire_bytes(1, count));
    else
      sizes.push_back(answer_bytes(*codec.coordinate_query(), count));
  }
  return sizes;
}

task::Task<void> ServerClient::encode(LevelTransfer transfer, const tensor::Arena* values,
                                      std::vector<View> wires) {
  std::size_t bytes = 0;
  for (View wire : wires) bytes += wire.size();
  if (asked(transfer.range))
    for (std::size_t size : sizes(Wires::Response, transfer.range)) bytes += size;
  const double others = 1 - (roles_.serves(group_.rank()) ? 1.0 / roles_.servers() : 0);  // not to itself
  coders_.contributions->count(others * static_cast<double>(values->bytes(transfer.range).size()),
                               others * static_cast<double>(bytes));
  const CompressedReduce reduce = coders_.contributions->reduce_of(group_, transfer, *values);
  ReduceKernels kernels(reduce);
  for (std::size_t server = 0; server < wires.size(); ++server) {
    co_await kernels.encode(roles_.part_of(kernels.all(), static_cast<int>(server)), wires[server],
                            server + 1);
  }
}

/// What servers answered is added to the values that the worker has.
task::Task<void> ServerClient::decode(LevelTransfer transfer, const tensor::Arena* values,
                                      std::vector<View> wires) {
  for (std::size_t server = 0; server < wires.size(); ++server) {
    LevelTransfer part = transfer;
    part.range = roles_.part_of(transfer.range, static_cast<int>(server));
    part.round = ServerCoders::round_of_answer(lines_.at(transfer.unit).answers[server][ServerWire::Version]);
    const CompressedReduce reduce = coders_.answers->reduce_of_part(group_, part, values->bytes(part.range));
    ReduceKernels kernels(reduce);
    co_await kernels.decode(wires[server], kernels.all(), codec::Into::Add,
                            roles_.member_of_server(static_cast<int>(server)));
  }
}

CompressedReduce ServerClient::part_reduce(LevelTransfer transfer, const tensor::Arena* values, int server) {
  transfer.range = roles_.part_of(transfer.range, server);
  return coders_.contributions->reduce_of(group_, transfer, *values);
}

/// Servers ask when all have handed in, each when it is ready.
task::Task<void> ServerClient::respond(LevelTransfer transfer, const tensor::Arena* values) {
  task::Scope responses(group_.runtime().pending());
  for (int i = 0; i < roles_.servers(); ++i)
    responses.spawn(respond_to((group_.rank() + i) % roles_.servers(), transfer, values));
  co_await responses.join();
}

task::Task<void> ServerClient::respond_to(int server, LevelTransfer transfer, const tensor::Arena* values) {
  const auto s = static_cast<std::size_t>(server);
  Channel& channel = *line(transfer).servers[s];
  comm::Scratch question(group_.scratch(), sizes(Wires::Question, transfer.range)[s],
                         values->bytes(transfer.range));
  comm::Scratch response(group_.scratch(), sizes(Wires::Response, transfer.range)[s],
                         values->bytes(transfer.range));
  co_await channel.hear(ServerWire::Question, question.bytes());
  {
    const CompressedReduce reduce = part_reduce(transfer, values, server);
    ReduceKernels kernels(reduce);
    co_await kernels.respond(question.bytes(), response.bytes(), roles_.member_of_server(server));
  }
  co_await channel.say(ServerWire::Response, response.bytes());
}

task::Task<void> ServerClient::take_over(LevelTransfer transfer, const tensor::Arena* values,
                                         std::vector<View> wires) {
  for (std::size_t server = 0; server < wires.size(); ++server) {
    const CompressedReduce reduce = part_reduce(transfer, values, static_cast<int>(server));
    ReduceKernels kernels(reduce);
    co_await kernels.take_over(wires[server], roles_.member_of_server(static_cast<int>(server)));
  }
}

}  // namespace taxon::exchange
