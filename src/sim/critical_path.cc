#include "sim/critical_path.h"

#include <algorithm>

namespace taxon::sim {
namespace {

using Work = ResourceTimeline::Work;
using Service = ResourceTimeline::Service;

/// Something that ended: a cause of what happened next on a rank.
struct Ending {
  Instant at;
  enum class What { Sent, Worked, Arrived } what;  // of those at one time the last is taken
  std::size_t index;
  bool before(const Ending& other) const { return at != other.at ? at < other.at : what < other.what; }
};

constexpr int kMostIdle = 1000;

class Walk {
 public:
  Walk(const ResourceTimeline& timeline, Instant from, Instant until) : timeline_(timeline), from_(from) {
    for (std::size_t i = 0; i < timeline.works().size(); ++i) {
      const Work& work = timeline.works()[i];
      if (work.end <= from || work.begin >= until) continue;
      place(work.rank).push_back({work.end, Ending::What::Worked, i});
      if (work.stream == tensor::Stream::Compute) kernels(work.rank).push_back(i);
    }
    for (std::size_t i = 0; i < timeline.services().size(); ++i) {
      const Service& service = timeline.services()[i];
      if (service.end <= from || service.came >= until) continue;
      if (service.before < 0) place(service.source).push_back({service.end, Ending::What::Sent, i});
      if (service.arrived <= until)
        place(service.target).push_back({service.arrived, Ending::What::Arrived, i});
      queue(service.link).push_back(i);
    }
    for (auto& endings : endings_)
      std::stable_sort(endings.begin(), endings.end(),
                       [](const Ending& a, const Ending& b) { return a.before(b); });
  }

  std::vector<PathSegment> back_from(int rank, Instant until) {
    rank_ = rank;
    now_ = until;
    for (int idle = 0; now_ > from_;) {
      const Instant before = now_;
      step();
      idle = now_ == before ? idle + 1 : 0;
      // Messages that take no time can send the walk in a circle.
      if (idle > kMostIdle) add({PathSegment::Kind::Wait, rank_, 0, 0, now_ - Duration(1), now_});
    }
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  template <class T>
  static T& grown(std::vector<T>& list, std::size_t index) {
    if (list.size() <= index) list.resize(index + 1);
    return list[index];
  }
  std::vector<Ending>& place(int rank) { return grown(endings_, static_cast<std::size_t>(rank)); }
  std::vector<std::size_t>& kernels(int rank) { return grown(kernels_, static_cast<std::size_t>(rank)); }
  std::vector<std::size_t>& queue(std::uint32_t link) { return grown(queues_, link); }

  void add(PathSegment stretch) {
    stretch.begin = std::max(stretch.begin, from_);
    if (stretch.begin < stretch.end) path_.push_back(stretch);
    now_ = std::min(now_, stretch.begin);
  }

  void step() {
    const auto& endings = place(rank_);
    const Ending here{now_, Ending::What::Arrived, 0};
    auto after = std::upper_bound(endings.begin(), endings.end(), here,
                                  [](const Ending& a, const Ending& b) { return a.before(b); });
    if (after != endings.begin() && std::prev(after)->at == now_) return follow(*std::prev(after));
    if (marked()) return;
    const Instant last = after == endings.begin() ? from_ : std::max(from_, std::prev(after)->at);
    add({PathSegment::Kind::Wait, rank_, 0, 0, last, now_});
  }

  /// In the middle of a kernel of the compute stream: it told that a part of its result was complete.
  bool marked() {
    for (std::size_t index : kernels(rank_)) {
      const Work& work = timeline_.works()[index];
      if (work.begin >= now_ || work.end <= now_) continue;
      add({PathSegment::Kind::Compute, rank_, work.name, 0, work.begin, now_});
      return true;
    }
    return false;
  }

  void follow(const Ending& ending) {
    if (ending.what != Ending::What::Worked)
      return follow(timeline_.services()[ending.index], ending.what == Ending::What::Arrived);
    const Work* work = &timeline_.works()[ending.index];
    while (true) {
      add({kind_of(work->stream), rank_, work->name, 0, work->begin, now_});
      if (work->came == work->begin || now_ <= from_) return;
      const Work* earlier = stream_before(*work);
      if (earlier == nullptr) return;
      work = earlier;
    }
  }

  static PathSegment::Kind kind_of(tensor::Stream stream) {
    if (stream == tensor::Stream::Compute) return PathSegment::Kind::Compute;
    return stream == tensor::Stream::Exchange ? PathSegment::Kind::Exchange : PathSegment::Kind::Data;
  }

  const Work* stream_before(const Work& work) {
    const auto& endings = place(rank_);
    auto first = std::lower_bound(endings.begin(), endings.end(), work.begin,
                                  [](const Ending& ending, Instant at) { return ending.at < at; });
    for (; first != endings.end() && first->at == work.begin; ++first)
      if (first->what == Ending::What::Worked)
        if (const Work& other = timeline_.works()[first->index]; other.stream == work.stream) return &other;
    return nullptr;
  }

  /// Back along a message: its last bytes' way, and what its link did before it.
  void follow(const Service& last, bool arrived) {
    const Service* service = &last;
    if (arrived && service->arrived > service->end)
      add({PathSegment::Kind::Latency, service->source, 0, service->unit, service->end, now_});
    while (now_ > from_) {
      add({PathSegment::Kind::Link, service->source, service->link, service->unit, service->begin, now_});
      if (service->begin > service->came) {
        const Service* earlier = link_before(*service);
        rank_ = service->source;
        if (earlier == nullptr) return;
        service = earlier;
        continue;
      }
      const std::int64_t before = service->before - timeline_.first_service();
      if (before < 0) {
        rank_ = service->source;
        return;
      }
      // Its first byte had left the link before some time ago: that link's overhead, and the latency.
      service = &timeline_.services()[static_cast<std::size_t>(before)];
      const Instant begin = std::min(service->begin, now_);
      add({PathSegment::Kind::Latency, service->source, 0, service->unit, begin, now_});
    }
  }

  /// Whose end the service waited for.
  const Service* link_before(const Service& service) {
    const auto& all = queue(service.link);
    auto end_of = [&](std::size_t index) { return timeline_.services()[index].end; };
    auto found = std::lower_bound(all.begin(), all.end(), service.begin,
                                  [&](std::size_t index, Instant at) { return end_of(index) < at; });
    return found != all.end() && end_of(*found) == service.begin ? &timeline_.services()[*found] : nullptr;
  }

  const ResourceTimeline& timeline_;
  const Instant from_;
  std::vector<std::vector<Ending>> endings_;       // [rank]
  std::vector<std::vector<std::size_t>> kernels_;  // [rank]: of the compute stream
  std::vector<std::vector<std::size_t>> queues_;   // [link]: services in their order
  std::vector<PathSegment> path_;                  // latest first
  int rank_ = 0;
  Instant now_;
};

}  // namespace

std::vector<PathSegment> critical_path(const ResourceTimeline& timeline, int rank, Instant from,
                                       Instant until) {
  return Walk(timeline, from, until).back_from(rank, until);
}

}  // namespace taxon::sim
