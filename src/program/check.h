#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace taxon::program {

// What can be known of a program before it runs. Pure functions.

/// Everything that is wrong with it by itself, one sentence each:
///   every stage takes every micro-batch forward and backward once (inputs and weights, together or apart);
///   what an action uses is there: received, computed on this rank before, of a version that exists;
///   both passes of a micro-batch use the same version at a stage;
///   what leaves a rank for another comes there in the same order, activations and gradients each;
///   exchanges follow the gradients that they count, updates their exchange, and nothing is left out.
/// Empty: it is sound, and ends where channels have room for any number of messages, or says who waits.
std::vector<std::string> program_problems(const Program& program);

/// Who waits for what at the end, where a channel (from one rank to another, of activations or of gradients)
/// holds at most `room` messages that nobody has asked for yet; a send into a full channel waits. 0: a send
/// waits for its receive. Empty: every action is carried out.
std::vector<std::string> deadlock(const Program& program, int room);
/// The least room with which the program ends; none: it never does.
std::optional<int> least_room(const Program& program);

/// What a stage holds at once, at most.
struct StageMemory {
  int activations = 0;  // micro-batches whose gradients of weights are not made yet
  int versions = 0;     // of weights: the newest, and what passes that are to come use
};
/// How often weights of so many versions lie in memory: beside several there is the master that updates
/// change.
constexpr int weight_copies(int versions) { return versions > 1 ? versions + 1 : 1; }
/// Of each stage. REQUIRES: program_problems() found nothing.
std::vector<StageMemory> stage_memory(const Program& program);
/// Of each rank: micro-batches of which it holds activations at once, at most, over all its stages. The same.
std::vector<int> rank_activations(const Program& program);

}  // namespace taxon::program
