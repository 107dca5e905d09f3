#pragma once

#include "exchange/channel/channel.h"

namespace taxon::exchange {

/// Which members of a group work and which serve: with dedicated servers these are the last ones, otherwise
/// every member does both. Server s owns part s of every bucket.
struct Roles {
  int size = 1;
  int dedicated = 0;
  int workers() const { return size - dedicated; }
  int servers() const { return dedicated > 0 ? dedicated : size; }
  int member_of_server(int server) const { return dedicated > 0 ? workers() + server : server; }
  bool works(int member) const { return member < workers(); }
  bool serves(int member) const { return dedicated == 0 || member >= workers(); }
  Range part_of(Range range, int server) const {
    return part(range, static_cast<std::size_t>(servers()), static_cast<std::size_t>(server));
  }
};

/// What a worker says ahead of a contribution, and a server ahead of its answer.
struct ServerWire {
  enum Message : std::uint32_t {
    HandedInHead,
    HandedIn,
    AnswerHead,
    Answer,
    Control,
    ControlDone,
    Question,  // of codecs that ask
    Response
  };
  enum Kind : std::int64_t { Contribution, Pause, Close };
  using Head = ValueChannel::Head;
  // Of HandedInHead and Control.
  enum Field { KindOf, Clock, Base, Samples, MeanOver, Number, Round, Written };
  // Of AnswerHead.
  enum AnswerField { CommonClock, Version, AnswerWritten };
  static constexpr ValueChannel::Direction kContributions{HandedInHead, HandedIn, Written, "hand in",
                                                          "contributions"};
  static constexpr ValueChannel::Direction kAnswers{AnswerHead, Answer, AnswerWritten, "answer", "answers"};
};
/// The unit of Control messages: none of a bucket.
inline constexpr std::uint32_t kServerControlUnit = 0x40000010;

}  // namespace taxon::exchange
