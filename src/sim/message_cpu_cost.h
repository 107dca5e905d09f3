#pragma once

#include <deque>

#include "sim/message.h"
#include "sim/thread.h"

namespace taxon::sim {

/// What a rank's messages cost its processor: pieces of work on the thread that communicates.
class MessageCpuCost final : public ThreadUser {
 public:
  enum class End { Sender, Receiver };
  /// Called when one end has handled the message.
  class Listener {
   public:
    virtual void handled(Message& message, End end) = 0;

   protected:
    ~Listener() = default;
  };
  MessageCpuCost(Listener& listener, Thread& thread) : listener_(listener), thread_(thread) {}
  MessageCpuCost(const MessageCpuCost&) = delete;

  /// Works for as long as this end of the message's route asks for, when its turn comes.
  void push(Message& message, End end) {
    pieces_.push_back({&message, end});
    thread_.push(*this);
  }
  std::optional<Duration> go_on() override;

 private:
  struct Piece {
    Message* message;
    End end;
  };
  Listener& listener_;
  Thread& thread_;
  std::deque<Piece> pieces_;
  bool working_ = false;  // on the first one
};

}  // namespace taxon::sim
