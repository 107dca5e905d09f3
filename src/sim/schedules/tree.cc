#include "comm/rows/tree.h"

#include <algorithm>

#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

using comm::Tree;
constexpr double kFactsBytes = 16;  // of comm::SizeHandshake

/// All members of a tree, each as far as it can go: comm::Tree::run() without its coroutines. Children of i
/// are 2 i + 1 and 2 i + 2.
class TreeSteps final : private ScheduleEvaluator::Story {
 public:
  TreeSteps(ScheduleEvaluator& evaluator, std::size_t bytes, DType type, Tree::Ways ways)
      : evaluator_(evaluator),
        type_(type),
        sums_(ways == Tree::Ways::Both),
        segments_(Tree::segments(bytes)),
        piece_(static_cast<double>(bytes) / static_cast<double>(segments_)),
        nodes_(static_cast<std::size_t>(evaluator.members())) {
    for (std::size_t member = 0; member < nodes_.size(); ++member) {
      Node& node = nodes_[member];
      const std::size_t below = std::min(nodes_.size(), 2 * member + 1);
      node.children = std::min<std::size_t>(2, nodes_.size() - below);
      if (sums_ && member > 0) node.lag = Tree::kLag;
      if (segments_ > 1) node.facts = sums_ ? node.children : member > 0 ? 1 : 0;
      if (member == 0) continue;
      const int own = static_cast<int>(member), parent = (own - 1) / 2;
      node.up = evaluator.way(own, parent);
      node.down = evaluator.way(parent, own);
    }
  }

  CompletionTimes run() {
    for (std::size_t member = 0; segments_ > 1 && member < nodes_.size(); ++member) agree(member);
    for (std::size_t member = 0; member < nodes_.size(); ++member)
      evaluator_.resume_at(Duration(0), static_cast<int>(member));
    evaluator_.play(*this);
    CompletionTimes table;
    table.waits = Tree::depth(evaluator_.members()) * (sums_ ? 2 : 1) +
                  static_cast<double>(segments_ - 1) / static_cast<double>(Tree::kWindow);
    for (const Node& node : nodes_) {
      table.ends.push_back(node.stage == Stage::Over ? node.end : ScheduleEvaluator::kNever);
      sums_ ? table.slack.push_back(node.needed) : table.first.push_back(node.first);
    }
    return table;
  }

 private:
  /// Where in comm::Tree::run() a member is. Waits come before what they are for.
  enum class Stage { Facts, Receive, Sum, SendUp, Spread, SendDown, Next, Finish, Over };
  enum class What : std::uint32_t { Facts, Up, Down };
  struct Node {
    ScheduleEvaluator::Way up, down;  // to the parent, and from it
    std::size_t children = 0, facts = 0, lag = 0;
    Stage stage = Stage::Facts;
    std::size_t turn = 0;  // of the loop
    bool sleeping = true;  // until its resumption
    std::array<std::size_t, 2> came_up{};
    std::size_t came_down = 0;
    std::array<Duration, Tree::kWindow> up_left{}, down_left{};
    Duration needed{0}, first{0}, end{0};
  };
  static constexpr std::uint32_t kWhat = 4;

  static std::uint32_t name(std::size_t member, What what) {
    return static_cast<std::uint32_t>(member) * kWhat + static_cast<std::uint32_t>(what);
  }
  Node& child(std::size_t member, std::size_t which) { return nodes_[2 * member + 1 + which]; }

  void agree(std::size_t member) {
    if (sums_ && member > 0)
      evaluator_.post(nodes_[member].up, kFactsBytes, Duration(0), name((member - 1) / 2, What::Facts));
    for (std::size_t which = 0; !sums_ && which < nodes_[member].children; ++which)
      evaluator_.post(child(member, which).down, kFactsBytes, Duration(0),
                      name(2 * member + 1 + which, What::Facts));
  }

  void resumed(int member, Duration now) override {
    nodes_[static_cast<std::size_t>(member)].sleeping = false;
    go_on(static_cast<std::size_t>(member), now);
  }

  /// Messages up are named after their sender, so that the parent knows which child it was.
  void arrived(std::uint32_t message, Duration now) override {
    std::size_t member = message / kWhat;
    switch (static_cast<What>(message % kWhat)) {
      case What::Facts:
        --nodes_[member].facts;
        break;
      case What::Up:
        ++nodes_[(member - 1) / 2].came_up[(member - 1) % 2];
        member = (member - 1) / 2;
        break;
      case What::Down:
        if (nodes_[member].came_down++ == 0) nodes_[member].first = now;
        break;
    }
    if (!nodes_[member].sleeping) go_on(member, now);
  }

  void go_on(std::size_t member, Duration now) {
    while (step(member, now)) continue;
  }
  /// False, and asleep, if `when` is still to come.
  bool reached(std::size_t member, Duration when, Duration now) {
    if (when <= now) return true;
    nodes_[member].sleeping = true;
    evaluator_.resume_at(when, static_cast<int>(member));
    return false;
  }

  /// One stage; false if the member has to wait.
  bool step(std::size_t member, Duration now) {
    Node& node = nodes_[member];
    const std::size_t turn = node.turn, slot = turn % Tree::kWindow;
    const bool up = sums_ && turn < segments_;
    switch (node.stage) {
      case Stage::Facts:
        if (node.facts > 0) return false;
        node.stage = Stage::Receive;
        return true;
      case Stage::Receive:
        for (std::size_t which = 0; up && which < node.children; ++which)
          if (node.came_up[which] <= turn) return false;
        if (turn == 0) node.needed = now;
        node.stage = up ? Stage::Sum : Stage::Spread;
        return true;
      case Stage::Sum: {
        node.stage = Stage::SendUp;
        if (node.children == 0) return true;
        const int sources = static_cast<int>(node.children) + 1;
        return reached(member, evaluator_.sum(static_cast<int>(member), type_, piece_, sources, 1, now), now);
      }
      case Stage::SendUp:
        if (member > 0) {
          if (!reached(member, node.up_left[slot], now)) return false;
          node.up_left[slot] = evaluator_.post(node.up, piece_, now, name(member, What::Up));
        }
        node.stage = Stage::Spread;
        return true;
      case Stage::Spread:
        node.stage = Stage::SendDown;
        if (turn >= node.lag && turn - node.lag < segments_) return true;
        node.stage = Stage::Next;
        return true;
      case Stage::SendDown:
        return send_down(member, now);
      case Stage::Next:
        if (node.lag > 0 && turn >= segments_ && turn - Tree::kWindow < segments_ &&
            !reached(member, node.up_left[slot], now))
          return false;
        node.stage = ++node.turn < segments_ + node.lag ? Stage::Receive : Stage::Finish;
        return true;
      case Stage::Finish:
        for (std::size_t i = 0; i < Tree::kWindow; ++i) {
          if (!reached(member, node.up_left[i], now)) return false;
          for (std::size_t which = 0; which < node.children; ++which)
            if (!reached(member, child(member, which).down_left[i], now)) return false;
        }
        node.stage = Stage::Over;
        node.end = now;
        return false;
      case Stage::Over:
        return false;
    }
    return false;
  }

  bool send_down(std::size_t member, Duration now) {
    Node& node = nodes_[member];
    const std::size_t segment = node.turn - node.lag, slot = segment % Tree::kWindow;
    if (member > 0 && node.came_down <= segment) return false;
    for (std::size_t which = 0; which < node.children; ++which)
      if (!reached(member, child(member, which).down_left[slot], now)) return false;
    for (std::size_t which = 0; which < node.children; ++which) {
      Node& below = child(member, which);
      below.down_left[slot] =
          evaluator_.post(below.down, piece_, now, name(2 * member + 1 + which, What::Down));
    }
    node.stage = Stage::Next;
    return true;
  }

  ScheduleEvaluator& evaluator_;
  DType type_;
  bool sums_;
  std::size_t segments_;
  double piece_;
  std::vector<Node> nodes_;
};

}  // namespace

CompletionTimes evaluate_tree_all_reduce(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  return TreeSteps(evaluator, bytes, type, Tree::Ways::Both).run();
}
CompletionTimes evaluate_tree_broadcast(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  return TreeSteps(evaluator, bytes, type, Tree::Ways::Down).run();
}

}  // namespace taxon::sim
