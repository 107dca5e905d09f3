#include <fmt/format.h>

#include "parallel/network.h"

namespace taxon::parallel {

/// The network of speech recognition that PCL-DNN scales (Das et al., arXiv 1602.06709), after Seide et al.,
/// "Conversational speech transcription using context-dependent deep neural networks", Interspeech 2011: 429
/// features of a frame and its neighbours, seven hidden layers, and the states of Switchboard.
NetworkRow cd_dnn() {
  return network_row<NoOptions>(
      {.name = "cd-dnn",
       .sentence = "7 hidden layers of 2048, for frames of speech",
       .source = "Seide et al., Interspeech 2011; Das et al., arXiv 1602.06709",
       .batch = 1024},
      [](const NoOptions&) {
        Network network{.name = "cd-dnn", .sample = "frame"};
        for (int i = 1; i <= 7; ++i)
          network.layers.push_back(linear(fmt::format("fc{}", i), {i == 1 ? 429 : 2048, 2048}));
        network.layers.push_back(linear("fc8", {2048, 9304}));
        return network;
      });
}

}  // namespace taxon::parallel
