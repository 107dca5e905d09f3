#include "program/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace taxon::program {
namespace {

/// What has become of one micro-batch at one stage.
struct Passage {
  bool input = false, gradient = false;  // there, from another rank
  bool forward = false, input_gradient = false, weight_gradient = false;
  bool activation_sent = false, gradient_sent = false;
  int version = 0;
};

/// Goes through one rank's list.
class RankCheck {
 public:
  RankCheck(const Program& program, int rank, std::vector<std::string>& problems)
      : program_(program), rank_(rank), problems_(problems) {}

  void run() {
    for (const Action& action : program_.ranks[static_cast<std::size_t>(rank_)]) take(action);
    finish();
  }

 private:
  struct Stage {
    std::vector<Passage> passages;
    int weight_gradients = 0, exchanged = 0, updated = 0;  // micro-batches
    int version = 0;
    int end = 0;  // position of its last gradient of weights in the list
  };

  void complain(const Action& action, std::string_view what) {
    problems_.push_back(fmt::format("rank {}: {} {}", rank_, describe(action), what));
  }
  /// False: the action is nonsense and nothing else is to be said of it.
  bool belongs(const Action& action) {
    if (action.stage < 0 || action.stage >= program_.stages || program_.rank_at(action.stage) != rank_) {
      complain(action, "is at a stage that the rank does not hold");
      return false;
    }
    if (action.micro < 0 || action.micro >= program_.micros) {
      complain(action, fmt::format("is of none of the {} micro-batches", program_.micros));
      return false;
    }
    return true;
  }
  Stage& stage(int index) {
    Stage& found = stages_[index];
    found.passages.resize(static_cast<std::size_t>(program_.micros));
    return found;
  }
  Passage& passage(int index, int micro) { return stage(index).passages[static_cast<std::size_t>(micro)]; }
  bool here(int index) const { return program_.rank_at(index) == rank_; }

  void once(const Action& action, bool& flag) {
    if (flag) complain(action, "comes twice");
    flag = true;
  }

  void take(const Action& action) {
    ++position_;
    if (!belongs(action)) return;
    Stage& at = stage(action.stage);
    Passage& micro = at.passages[static_cast<std::size_t>(action.micro)];
    switch (action.kind) {
      case ActionKind::Forward:
        return forward(action, at, micro);
      case ActionKind::Backward:
        backward_input(action, micro);
        return backward_weight(action, at, micro);
      case ActionKind::BackwardInput:
        return backward_input(action, micro);
      case ActionKind::BackwardWeight:
        return backward_weight(action, at, micro);
      case ActionKind::SendActivation:
        if (!micro.forward) complain(action, "stands before the forward pass");
        if (program_.is_last(action.stage) || here(action.stage + 1))
          complain(action, "has no other rank to go to");
        return once(action, micro.activation_sent);
      case ActionKind::ReceiveActivation:
        if (program_.is_first(action.stage) || here(action.stage - 1))
          complain(action, "has no other rank to come from");
        return once(action, micro.input);
      case ActionKind::SendGradient:
        if (!micro.input_gradient) complain(action, "stands before the backward pass");
        if (program_.is_first(action.stage) || here(action.stage - 1))
          complain(action, "has no other rank to go to");
        return once(action, micro.gradient_sent);
      case ActionKind::ReceiveGradient:
        if (program_.is_last(action.stage) || here(action.stage + 1))
          complain(action, "has no other rank to come from");
        return once(action, micro.gradient);
      case ActionKind::Exchange:
        return exchange(action, at);
      case ActionKind::Update:
        return update(action, at);
    }
  }

  void forward(const Action& action, Stage& at, Passage& micro) {
    if (!program_.is_first(action.stage)) {
      const bool there =
          here(action.stage - 1) ? passage(action.stage - 1, action.micro).forward : micro.input;
      if (!there) complain(action, "stands before its input is there");
    }
    once(action, micro.forward);
    if (action.version < 0 || action.version > at.version)
      complain(action, fmt::format("uses version {} of the weights, when there are {} updates",
                                   action.version, at.version));
    micro.version = action.version;
  }

  void backward_input(const Action& action, Passage& micro) {
    if (!micro.forward) complain(action, "stands before the forward pass");
    if (!program_.is_last(action.stage)) {
      const bool there =
          here(action.stage + 1) ? passage(action.stage + 1, action.micro).input_gradient : micro.gradient;
      if (!there) complain(action, "stands before the gradient of its output is there");
    }
    once(action, micro.input_gradient);
    same_version(action, micro);
  }

  void backward_weight(const Action& action, Stage& at, Passage& micro) {
    if (!micro.input_gradient) complain(action, "stands before the backward pass to inputs");
    once(action, micro.weight_gradient);
    same_version(action, micro);
    ++at.weight_gradients;
    at.end = position_;
  }

  void same_version(const Action& action, const Passage& micro) {
    if (action.version != micro.version)
      complain(action, fmt::format("uses version {} of the weights, and its forward pass {}", action.version,
                                   micro.version));
  }

  void exchange(const Action& action, Stage& at) {
    if (at.weight_gradients != action.micro + 1 || at.weight_gradients <= at.exchanged)
      complain(action, fmt::format("counts {} gradients, when there are {}, of which {} have been exchanged",
                                   action.micro + 1, at.weight_gradients, at.exchanged));
    at.exchanged = at.weight_gradients;
  }

  void update(const Action& action, Stage& at) {
    if (at.exchanged != action.micro + 1 || at.exchanged <= at.updated)
      complain(action, "stands before the exchange of its gradients");
    at.updated = at.exchanged;
    if (action.version != ++at.version)
      complain(action, fmt::format("makes version {}, when there are {} updates before", action.version,
                                   at.version - 1));
  }

  void finish() {
    int before = -1;  // the rank's stage before this one
    for (int index = 0; index < program_.stages; ++index) {
      if (!here(index)) continue;
      const Stage& at = stage(index);
      // What ends a stage hands over whatever it has not handed over of the stages behind it.
      if (before >= 0 && stage(before).end > 0 && stage(before).end < at.end)
        problems_.push_back(
            fmt::format("rank {}: the last gradient of weights of stage {} stands before that "
                        "of stage {}: stages end from the last to the first",
                        rank_, before, index));
      before = index;
      for (int micro = 0; micro < program_.micros; ++micro) {
        const Passage& one = at.passages[static_cast<std::size_t>(micro)];
        const auto need = [&](bool done, ActionKind kind) {
          if (!done)
            problems_.push_back(fmt::format("rank {}: no {}", rank_, describe({kind, index, micro})));
        };
        need(one.forward, ActionKind::Forward);
        need(one.input_gradient, ActionKind::BackwardInput);
        need(one.weight_gradient, ActionKind::BackwardWeight);
      }
      if (at.updated != program_.micros)
        problems_.push_back(fmt::format("rank {}: {} of {} micro-batches are in updates of stage {}", rank_,
                                        at.updated, program_.micros, index));
    }
  }

  const Program& program_;
  const int rank_;
  std::vector<std::string>& problems_;
  std::map<int, Stage> stages_;
  int position_ = 0;
};

/// From one rank to another, of activations (0) or gradients (1).
struct ChannelKey {
  int from = 0, to = 0, kind = 0;
  auto operator<=>(const ChannelKey&) const = default;
};

ChannelKey channel_of(const Program& program, int rank, const Action& action) {
  const int other = program.rank_at(counterpart(action).stage);
  const bool gradient = action.kind == ActionKind::SendGradient || action.kind == ActionKind::ReceiveGradient;
  return sends(action.kind) ? ChannelKey{rank, other, gradient} : ChannelKey{other, rank, gradient};
}

void check_orders(const Program& program, std::vector<std::string>& problems) {
  std::map<ChannelKey, std::pair<std::vector<Action>, std::vector<Action>>>
      channels;  // as the sender has them
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank)
    for (const Action& action : program.ranks[static_cast<std::size_t>(rank)]) {
      if (!transfers(action.kind)) continue;
      auto& [sent, received] = channels[channel_of(program, rank, action)];
      if (sends(action.kind))
        sent.push_back(action);
      else
        received.push_back(counterpart(action));
    }
  for (const auto& [key, lists] : channels) {
    const auto& [sent, received] = lists;
    const std::size_t common = std::min(sent.size(), received.size());
    const auto [a, b] =
        std::mismatch(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(common), received.begin());
    if (a != sent.begin() + static_cast<std::ptrdiff_t>(common))
      problems.push_back(fmt::format("rank {} begins with {} to rank {}, which waits for {}", key.from,
                                     describe(*a), key.to, describe(counterpart(*b))));
    else if (sent.size() != received.size())
      problems.push_back(fmt::format("rank {} sends {} messages to rank {}, which receives {}", key.from,
                                     sent.size(), key.to, received.size()));
  }
}

/// Carries a program's transfers out; passes take no time.
class Rehearsal {
 public:
  Rehearsal(const Program& program, int room)
      : program_(program), room_(room), places_(program.ranks.size()) {
    for (std::size_t rank = 0; rank < places_.size(); ++rank) enter(rank);
  }

  /// True if all came to the end.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < places_.size(); ++rank)
        while (step(rank)) moved = true;
    }
    return std::all_of(places_.begin(), places_.end(), [](const Place& place) { return place.open.empty(); });
  }
  std::vector<std::string> waiting() const {
    std::vector<std::string> sentences;
    for (std::size_t rank = 0; rank < places_.size(); ++rank)
      for (const Action& action : places_[rank].open)
        sentences.push_back(fmt::format("rank {} waits in {}", rank, describe(action)));
    return sentences;
  }

 private:
  /// Where a rank is: transfers that began together and have not ended.
  struct Place {
    std::size_t next = 0;
    std::vector<Action> open;
  };
  struct Channel {
    int held = 0;                 // sent and not received
    int sending = 0, asking = 0;  // begun and not ended, at the ends
  };

  const std::vector<Action>& list(std::size_t rank) const { return program_.ranks[rank]; }
  Channel& channel(std::size_t rank, const Action& action) {
    return channels_[channel_of(program_, static_cast<int>(rank), action)];
  }

  /// On to the next transfers, and begins them.
  void enter(std::size_t rank) {
    Place& place = places_[rank];
    const auto& actions = list(rank);
    while (place.next < actions.size() && !transfers(actions[place.next].kind)) ++place.next;
    while (place.next < actions.size() && transfers(actions[place.next].kind)) {
      const Action& action = actions[place.next++];
      place.open.push_back(action);
      ++(sends(action.kind) ? channel(rank, action).sending : channel(rank, action).asking);
    }
  }

  /// One transfer ends, or the rank goes on. False: it waits, or is at its end.
  bool step(std::size_t rank) {
    Place& place = places_[rank];
    for (auto open = place.open.begin(); open != place.open.end(); ++open) {
      Channel& at = channel(rank, *open);
      if (sends(open->kind) ? !send(at) : !receive(at)) continue;
      place.open.erase(open);
      if (place.open.empty()) enter(rank);
      return true;
    }
    return false;
  }
  /// A message moves into the channel if there is room, counting the receives that wait for one.
  bool send(Channel& at) const {
    if (at.held >= room_ + at.asking) return false;
    --at.sending;
    ++at.held;
    return true;
  }
  static bool receive(Channel& at) {
    if (at.held == 0) return false;
    --at.held;
    --at.asking;
    return true;
  }

  const Program& program_;
  const int room_;
  std::vector<Place> places_;
  std::map<ChannelKey, Channel> channels_;
};

/// Calls `held(stage, change)` for each pass that begins or ends to keep activations, in the rank's order.
template <class Held>
void for_each_change(const std::vector<Action>& actions, Held held) {
  for (const Action& action : actions) {
    if (action.kind == ActionKind::Forward) held(action.stage, 1);
    if (makes_weight_gradient(action.kind)) held(action.stage, -1);
  }
}

/// Versions of a stage's weights that are kept at once, at most: each from the update that makes it to its
/// last use, and the newest.
int most_versions(const std::vector<Action>& actions, int stage) {
  std::map<int, std::size_t> last_use;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (actions[i].stage == stage && computes(actions[i].kind)) last_use[actions[i].version] = i;
  std::vector<int> ends(actions.size(), 0);  // versions that are no longer the newest, by their last use
  int newest = 0, older = 0, most = 1;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    older -= ends[i];
    if (actions[i].stage != stage || actions[i].kind != ActionKind::Update) continue;
    if (const auto last = last_use.find(newest); last != last_use.end() && last->second > i) {
      ++older;
      ++ends[last->second];
    }
    newest = actions[i].version;
    most = std::max(most, 1 + older);
  }
  return most;
}

}  // namespace

std::vector<std::string> program_problems(const Program& program) {
  std::vector<std::string> problems;
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank)
    RankCheck(program, rank, problems).run();
  if (!problems.empty()) return problems;
  check_orders(program, problems);
  if (!problems.empty()) return problems;
  return deadlock(program, 2 * program.micros * program.stages);
}

std::vector<std::string> deadlock(const Program& program, int room) {
  Rehearsal rehearsal(program, room);
  if (rehearsal.run()) return {};
  return rehearsal.waiting();
}

std::optional<int> least_room(const Program& program) {
  const int most = program.micros * program.stages;
  for (int room = 0; room <= most; ++room)
    if (deadlock(program, room).empty()) return room;
  return std::nullopt;
}

std::vector<StageMemory> stage_memory(const Program& program) {
  std::vector<StageMemory> all(static_cast<std::size_t>(program.stages));
  for (const auto& actions : program.ranks) {
    std::map<int, int> now;
    for_each_change(actions, [&](int stage, int change) {
      int& most = all[static_cast<std::size_t>(stage)].activations;
      most = std::max(most, now[stage] += change);
    });
  }
  for (int stage = 0; stage < program.stages; ++stage)
    all[static_cast<std::size_t>(stage)].versions =
        most_versions(program.ranks[static_cast<std::size_t>(program.rank_at(stage))], stage);
  return all;
}

std::vector<int> rank_activations(const Program& program) {
  std::vector<int> all;
  for (const auto& actions : program.ranks) {
    int now = 0, most = 0;
    for_each_change(actions, [&](int, int change) { most = std::max(most, now += change); });
    all.push_back(most);
  }
  return all;
}

}  // namespace taxon::program
