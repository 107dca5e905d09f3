#include "model/torch/exported/cutter.h"

#include <algorithm>
#include <map>

#include "model/torch/exported/weights.h"

namespace taxon::model::exported {
namespace {

constexpr std::string_view kSize = "torch.ops.aten.sym_size.int";

}  // namespace

Interpreter::Cutter::Cutter(const Interpreter& program, std::span<const at::Tensor> stored,
                            at::ScalarType type)
    : program_(program), stored_(stored), type_(type), stored_at_(program.names_.size(), -1) {
  for (const Input& given : program.graph_.inputs)
    if (given.kind != Input::Kind::User && given.kind != Input::Kind::Unused)
      is_parameter_.push_back(given.kind == Input::Kind::Parameter);
  const auto input = program.graph_.tensors.find(program.names_[program.whole_.inputs[0]]);
  if (input != program.graph_.tensors.end() && !input->second.symbols.empty())
    batch_ = input->second.symbols[0];
  for (std::size_t i = 0; i < program.stored_.size(); ++i)
    stored_at_[program.stored_[i]] = static_cast<int>(i);
  if (batch_.empty()) return;  // all batches are of one size
  find_free();
  find_crossings();
  find_changes();
}

bool Interpreter::Cutter::is_size_of_batch(const Instruction& instruction) const {
  if (program_.graph_.nodes[instruction.node].target != kSize || instruction.operands.size() != 1)
    return false;
  const auto tensor = program_.graph_.tensors.find(program_.names_[instruction.operands[0].slot]);
  if (tensor == program_.graph_.tensors.end()) return false;
  const std::vector<std::string>& symbols = tensor->second.symbols;
  if (!instruction.arguments[1].isInt()) return false;
  std::int64_t dimension = instruction.arguments[1].toInt();
  if (dimension < 0) dimension += std::ssize(symbols);
  return dimension >= 0 && dimension < std::ssize(symbols) &&
         symbols[static_cast<std::size_t>(dimension)] == batch_;
}

bool Interpreter::Cutter::reads_free_alone(const Instruction& instruction) const {
  const std::vector<Slot> reads = instruction.sources();
  return std::all_of(reads.begin(), reads.end(), [&](Slot slot) { return is_free(slot); });
}

/// Parameters are left out: their gradients would be made of summands of several parts.
bool Interpreter::Cutter::follows_from_sizes(const Instruction& instruction) const {
  if (instruction.callee.is_random() || !instruction.writes.empty() || instruction.results.empty() ||
      !reads_free_alone(instruction))
    return false;
  const auto changes = [&](Slot slot) {
    const auto& mutations = program_.whole_.mutations;
    return program_.changes(program_.whole_, slot) ||
           std::any_of(mutations.begin(), mutations.end(), [&](const auto& m) { return m.first == slot; });
  };
  for (const Slot slot : instruction.sources())
    if (changes(slot) || is_parameter(slot)) return false;
  for (const Result& result : instruction.results)
    for (const Slot slot : result.slots)
      if (slot != kNowhere && changes(slot)) return false;
  return true;
}

void Interpreter::Cutter::find_free() {
  const std::size_t values = program_.names_.size();
  sizes_.assign(values, 0);
  free_.assign(values, 0);
  made_by_.assign(values, -1);
  for (const Slot slot : program_.stored_) free_[slot] = 1;
  for (std::size_t i = 0; i < program_.instructions_.size(); ++i) {
    const Instruction& instruction = program_.instructions_[i];
    const bool is_size = is_size_of_batch(instruction);
    again_.push_back(is_size || follows_from_sizes(instruction));
    for (const Result& result : instruction.results)
      for (const Slot slot : result.slots) {
        if (slot == kNowhere) continue;
        made_by_[slot] = static_cast<int>(i);
        free_[slot] = again_.back();
        sizes_[slot] = is_size;
      }
  }
}

bool Interpreter::Cutter::is_activation(Slot slot) const {
  const auto meta = program_.graph_.tensors.find(program_.names_[slot]);
  return made_by_[slot] >= 0 && meta != program_.graph_.tensors.end() && !meta->second.symbols.empty() &&
         meta->second.symbols[0] == batch_ && scalar_type(meta->second.type) == type_;
}

void Interpreter::Cutter::find_crossings() {
  const std::size_t count = program_.instructions_.size();
  std::vector<std::size_t> last(program_.names_.size(), 0);
  for (std::size_t i = 0; i < count; ++i)
    if (!again_[i])
      for (const Slot slot : program_.instructions_[i].sources()) last[slot] = i;
  last[program_.whole_.outputs[0]] = count;
  crossing_.assign(count, std::nullopt);
  std::set<Slot> crosses = {program_.whole_.inputs[0]};
  for (std::size_t i = 0; i < count; ++i) {
    std::erase_if(crosses, [&](Slot slot) { return last[slot] < i; });
    if (crosses.size() == 1 && is_activation(*crosses.begin())) crossing_[i] = *crosses.begin();
    for (const Result& result : program_.instructions_[i].results)
      for (const Slot slot : result.slots)
        if (slot != kNowhere && !is_free(slot)) crosses.insert(slot);
  }
}

/// No cut lies between two operators of which one writes where the other reads.
void Interpreter::Cutter::find_changes() {
  struct Users {
    std::size_t first = 0, last = 0;
    bool are_changed = false;
  };
  std::map<const at::TensorImpl*, Users> users;
  const auto use = [&](Slot slot, std::size_t at, bool changes) {
    const at::Tensor& tensor = stored_[static_cast<std::size_t>(stored_at_[slot])];
    Users& of = users.try_emplace(tensor.unsafeGetTensorImpl(), Users{at, at}).first->second;
    of.last = std::max(of.last, at);
    of.are_changed = of.are_changed || changes;
  };
  for (std::size_t i = 0; i < program_.instructions_.size(); ++i)
    for (const Slot slot : program_.instructions_[i].sources())
      if (stored_at_[slot] >= 0) use(slot, i, program_.changes(program_.whole_, slot));
  for (const auto& [buffer, value] : program_.whole_.mutations)
    use(buffer, static_cast<std::size_t>(std::max(0, made_by_[value])), true);
  for (const auto& [tensor, of] : users)
    for (std::size_t i = of.first + 1; of.are_changed && i <= of.last; ++i) crossing_[i] = std::nullopt;
}

std::vector<bool> Interpreter::Cutter::read_new_parameters() const {
  std::set<const at::TensorImpl*> known;
  std::vector<bool> found;
  for (const Instruction& instruction : program_.instructions_) {
    found.push_back(false);
    for (const Slot slot : instruction.sources()) {
      if (!is_parameter(slot)) continue;
      const at::Tensor& tensor = stored_[static_cast<std::size_t>(stored_at_[slot])];
      if (known.insert(tensor.unsafeGetTensorImpl()).second) found.back() = true;
    }
  }
  return found;
}

std::optional<Interpreter::Cutter::Position> Interpreter::Cutter::place(Position after,
                                                                        Position until) const {
  for (Position at = until; at > after; --at) {
    if (!crossing_[at]) continue;
    while (at - 1 > after && crossing_[at - 1] && reads_free_alone(program_.instructions_[at - 1])) --at;
    return at;
  }
  return std::nullopt;
}

std::vector<Interpreter::Stage> Interpreter::Cutter::stages() const {
  if (batch_.empty()) return {{program_.whole_, {}, {}}};
  std::vector<Position> begins = {0};
  std::optional<Position> last;  // that reads a parameter which is new
  const std::vector<bool> reads_new = read_new_parameters();
  for (Position i = 0; i < reads_new.size(); ++i) {
    if (!reads_new[i]) continue;
    if (const auto begin = last ? place(*last, i) : std::nullopt) begins.push_back(*begin);
    last = i;
  }
  if (begins.size() == 1) return {{program_.whole_, {}, {}}};
  std::vector<Stage> stages;
  for (std::size_t s = 0; s < begins.size(); ++s)
    stages.push_back(stage(begins[s], s + 1 < begins.size() ? begins[s + 1] : reads_new.size()));
  return stages;
}

Interpreter::Stage Interpreter::Cutter::stage(Position begin, Position end) const {
  Stage stage{part(begin, end), {}, {}};
  const Position behind = behind_layer(begin, end);
  if (behind < end && crossing_[behind]) {
    stage.layer = part(begin, behind);
    stage.rest = part(behind, end);
  }
  if (behind == end || (stage.has_layer() && !stage.has_rest())) stage.layer = stage.all;
  return stage;
}

Interpreter::Cutter::Position Interpreter::Cutter::behind_layer(Position begin, Position end) const {
  std::set<Slot> of_parameters;
  Position behind = begin;
  for (Position i = begin; i < end; ++i) {
    const std::vector<Slot> reads = program_.instructions_[i].sources();
    const auto is_of_parameters = [&](Slot slot) {
      return is_parameter(slot) || of_parameters.contains(slot);
    };
    if (std::none_of(reads.begin(), reads.end(), is_of_parameters)) continue;
    behind = i + 1;
    if (!std::all_of(reads.begin(), reads.end(), [&](Slot s) { return is_free(s) || is_of_parameters(s); }))
      continue;
    for (const Result& result : program_.instructions_[i].results)
      of_parameters.insert(result.slots.begin(), result.slots.end());
  }
  return behind;
}

Interpreter::Part Interpreter::Cutter::part(Position begin, Position end) const {
  Part part;
  std::set<std::uint32_t> instructions, stored;
  std::set<Slot> sizes;
  std::vector<std::uint32_t> wanted;
  const auto read = [&](Slot slot) {
    if (stored_at_[slot] >= 0) stored.insert(static_cast<std::uint32_t>(stored_at_[slot]));
    if (sizes_[slot])
      sizes.insert(slot);
    else if (is_free(slot) && made_by_[slot] >= 0)
      wanted.push_back(static_cast<std::uint32_t>(made_by_[slot]));
  };
  for (Position i = begin; i < end; ++i)
    if (!again_[i]) wanted.push_back(static_cast<std::uint32_t>(i));
  for (const auto& [buffer, value] : program_.whole_.mutations) {
    const auto made = static_cast<Position>(std::max(0, made_by_[value]));
    if (made < begin || made >= end) continue;
    part.mutations.emplace_back(buffer, value);
    read(buffer);
    read(value);
  }
  while (!wanted.empty()) {
    const std::uint32_t index = wanted.back();
    wanted.pop_back();
    if (!instructions.insert(index).second) continue;
    const Instruction& instruction = program_.instructions_[index];
    part.changes.insert(instruction.writes.begin(), instruction.writes.end());
    for (const Slot slot : instruction.sources()) read(slot);
  }
  part.instructions.assign(instructions.begin(), instructions.end());
  part.stored.assign(stored.begin(), stored.end());
  part.sizes.assign(sizes.begin(), sizes.end());
  part.inputs = {begin == 0 ? program_.whole_.inputs[0] : *crossing_[begin]};
  part.outputs = {end == program_.instructions_.size() ? program_.whole_.outputs[0] : *crossing_[end]};
  return part;
}

}  // namespace taxon::model::exported
