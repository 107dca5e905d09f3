#include "train/start/parts.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "model/division.h"
#include "train/bytes.h"

namespace taxon::train {
namespace {

/// The parameter of a tensor that is named "state/parameter" or as the parameter itself.
std::string parameter_of(const std::string& name) { return name.substr(name.rfind('/') + 1); }
std::string state_of(const std::string& name) {
  const std::size_t end = name.rfind('/');
  return end == std::string::npos ? "" : name.substr(0, end);
}

/// A parameter or buffer as a part has it.
struct Held {
  int split = -1, blocks = 1;
  int member = 0;  // of the tensor axis
};

void pack(Packer& packer, const model::ModelSpec& spec) {
  packer.number(static_cast<std::int64_t>(spec.parameters.size() + spec.buffers.size()));
  packer.number(spec.member);
  const auto pack_part = [&](const auto& tensor) {
    packer.text(tensor.name);
    packer.number(tensor.split);
    packer.number(tensor.blocks);
  };
  for (const model::ParameterSpec& parameter : spec.parameters) pack_part(parameter);
  for (const model::BufferSpec& buffer : spec.buffers) pack_part(buffer);
}

std::map<std::string, Held> unpack(Unpacker& unpacker) {
  std::map<std::string, Held> held;
  const std::int64_t count = unpacker.number();
  const int member = static_cast<int>(unpacker.number());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string name = unpacker.text();
    const int split = static_cast<int>(unpacker.number());
    held[name] = {split, static_cast<int>(unpacker.number()), member};
  }
  return held;
}

/// Copies a member's elements: `copy(where they begin in the whole, where in the part, how many)`, in bytes.
template <class Copy>
void for_runs(const checkpoint::LogicalTensor& part, const Held& held, int members, Copy&& copy) {
  const std::size_t element = size_of(part.type);
  std::size_t at = 0;
  for (Range run : model::part_of_whole(part.shape, held.split, held.blocks, members, held.member)) {
    copy(run.begin * element, at, run.size * element);
    at += run.size * element;
  }
}

}  // namespace

checkpoint::LogicalTensor cut_tensor(const checkpoint::LogicalTensor& whole, int split, int blocks,
                                     int members, int member) {
  if (split < 0) return whole;
  const std::int64_t length = whole.shape.at(static_cast<std::size_t>(split));
  TAXON_CHECK(length % (blocks * members) == 0, whole.name, " is not divided by ", members, " members");
  checkpoint::LogicalTensor part{whole.name, whole.type, whole.shape, {}, whole.is_flags};
  part.shape[static_cast<std::size_t>(split)] /= members;
  part.bytes.resize(whole.bytes.size() / static_cast<std::size_t>(members));
  for_runs(part, {split, blocks, member}, members, [&](std::size_t from, std::size_t to, std::size_t size) {
    std::memcpy(part.bytes.data() + to, whole.bytes.data() + from, size);
  });
  return part;
}

checkpoint::LogicalTensor join_tensor(const std::vector<const checkpoint::LogicalTensor*>& parts, int split,
                                      int blocks) {
  if (split < 0) return *parts.front();
  const int members = static_cast<int>(parts.size());
  const checkpoint::LogicalTensor& first = *parts.front();
  checkpoint::LogicalTensor whole{first.name, first.type, first.shape, {}, first.is_flags};
  whole.shape[static_cast<std::size_t>(split)] *= members;
  whole.bytes.resize(parts.front()->bytes.size() * parts.size());
  for (int member = 0; member < members; ++member) {
    const checkpoint::LogicalTensor& part = *parts[static_cast<std::size_t>(member)];
    for_runs(part, {split, blocks, member}, members, [&](std::size_t to, std::size_t from, std::size_t size) {
      std::memcpy(whole.bytes.data() + to, part.bytes.data() + from, size);
    });
  }
  return whole;
}

task::Task<std::optional<checkpoint::Checkpoint>> hand_out_parts(RankGroups ranks, const plan::MeshPlan* mesh,
                                                                 const model::ModelSpec* own,
                                                                 const checkpoint::Checkpoint* whole,
                                                                 bool same_mesh) {
  comm::Communicator& replica = ranks.replica->group;
  Agreement& agreement = ranks.replica->agreement;
  Packer wanted;
  pack(wanted, *own);
  const auto asked = co_await agreement.collect(wanted.take());
  std::vector<std::vector<std::byte>> answers(replica.rank() == 0 ? asked.size() : 0);
  for (std::size_t m = 0; m < answers.size(); ++m) {
    const Rank from = replica.global(static_cast<int>(m));
    Unpacker unpacker(asked[m], from);
    const auto held = unpack(unpacker);
    Packer answer;
    answer.number(whole ? 1 : 0);
    if (whole) {
      answer.number(whole->world_size);
      answer.number(whole->steps);
      answer.number(whole->samples);
      for (const auto* tensors : {&whole->weights, &whole->optimiser}) {
        std::vector<checkpoint::LogicalTensor> parts;
        for (const checkpoint::LogicalTensor& tensor : *tensors)
          if (auto found = held.find(parameter_of(tensor.name)); found != held.end())
            parts.push_back(cut_tensor(tensor, found->second.split, found->second.blocks, mesh->tensor,
                                       found->second.member));
          else if (tensor.name == Delayed::kClock)
            parts.push_back(tensor);
        answer.tensors(parts);
      }
      const int world = ranks.group.size();
      const auto members = plan::data_ranks(*mesh, world, plan::position_of(*mesh, world, from));
      answer.number(same_mesh ? static_cast<std::int64_t>(members.size()) : 0);
      for (Rank member : members)
        if (same_mesh) answer.tensors(whole->per_rank[static_cast<std::size_t>(member.value())]);
    }
    answers[m] = answer.take();
  }
  const auto answer = co_await agreement.hand_out(std::move(answers));
  Unpacker unpacker(answer, replica.global(0));
  std::optional<checkpoint::Checkpoint> part;
  if (unpacker.number() == 0) co_return part;
  part.emplace();
  part->world_size = static_cast<int>(unpacker.number());
  part->steps = unpacker.number();
  part->samples = unpacker.number();
  part->weights = unpacker.tensors();
  part->optimiser = unpacker.tensors();
  for (std::int64_t members = unpacker.number(); members > 0; --members)
    part->per_rank.push_back(unpacker.tensors());
  co_return part;
}

task::Task<std::vector<checkpoint::LogicalTensor>> join_parts(RankGroups ranks,
                                                              std::vector<checkpoint::LogicalTensor> own,
                                                              const model::ModelSpec* spec,
                                                              const model::ModelSpec* whole) {
  Packer packer;
  pack(packer, *spec);
  packer.tensors(own);
  const auto packed = co_await ranks.replica->agreement.collect(packer.take());
  struct Parts {
    Held held;
    std::map<int, checkpoint::LogicalTensor> by_member;
  };
  std::map<std::pair<std::string, std::string>, Parts> found;  // by state and parameter
  std::vector<std::string> states;  // in the order in which the first part has them
  for (std::size_t m = 0; m < packed.size(); ++m) {
    Unpacker unpacker(packed[m], ranks.replica->group.global(static_cast<int>(m)));
    const auto held = unpack(unpacker);
    for (checkpoint::LogicalTensor& tensor : unpacker.tensors()) {
      const std::string state = state_of(tensor.name), parameter = parameter_of(tensor.name);
      if (std::find(states.begin(), states.end(), state) == states.end()) states.push_back(state);
      const Held& place = held.at(parameter);
      Parts& parts = found[{state, parameter}];
      parts.held = place;
      parts.by_member.emplace(place.member, std::move(tensor));  // of stages that share it the first
    }
  }
  std::vector<std::string> names;
  for (const model::ParameterSpec& parameter : whole->parameters) names.push_back(parameter.name);
  for (const model::BufferSpec& buffer : whole->buffers) names.push_back(buffer.name);
  std::vector<checkpoint::LogicalTensor> joined;
  for (const std::string& state : states)
    for (const std::string& name : names) {
      auto parts = found.find({state, name});
      if (parts == found.end()) continue;
      std::vector<const checkpoint::LogicalTensor*> members;
      for (const auto& [member, tensor] : parts->second.by_member) members.push_back(&tensor);
      joined.push_back(join_tensor(members, parts->second.held.split, parts->second.held.blocks));
    }
  co_return joined;
}

}  // namespace taxon::train
