#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exchange/channel/buffer_pool.h"
#include "exchange/compression/coder.h"
#include "exchange/compression/selected_entries.h"
#include "exchange/layout/bucket.h"
#include "exchange/server/server_state.h"
#include "exchange/server/server_wire.h"

namespace taxon::exchange {

/// Codecs between workers and servers: of contributions, whose memory is the worker's, and of answers, which
/// say how far the owner's values went from those that this worker has. Null: they travel as they are.
struct ServerCoders {
  std::unique_ptr<Coder> contributions, answers;
  explicit ServerCoders(const TopologyContext& context);
  /// True if servers ask, and so answer with the entries that counted.
  bool query() const { return contributions && contributions->codec().coordinate_query(); }
  /// Where chance is drawn for an answer, which belongs to no step.
  static std::int64_t round_of_answer(std::int64_t version) { return -1 - version; }
};

/// A bucket's part that a server owns, and how its values travel.
struct OwnedPart {
  const Bucket* bucket = nullptr;
  Range range;            // elements of the weights
  std::size_t state = 0;  // where it begins in what is kept of owned elements alone
  std::optional<std::size_t> contribution_wire = {}, answer_wire = {};  // bytes; none: as it is
  const codec::Codec* asks = nullptr;  // contributions stay wires, whose sum asks for more
  SelectedEntries chosen = {};         // in that case: by the last update
  BufferPool values = {}, contribution_wires = {}, answer_wires = {};
  std::int64_t id() const { return bucket->id.value(); }
  bool direct() const { return !contribution_wire && !answer_wire; }
  Buffer take_contribution() { return asks ? contribution_wires.take() : values.take(); }
};

/// A server's side of codecs: wires become contributions, and values become answers. Executor's thread only.
class ServerCodecs {
 public:
  /// `coders` may be null. `group` and `owner` outlive it.
  ServerCodecs(comm::Communicator& group, std::unique_ptr<ServerCoders> coders, const ServerState& owner);

  /// Says how the part of a unit of `whole` elements travels, and makes its pools; `slots`: the tensors of
  /// the weights.
  void prepare(OwnedPart* part, std::size_t whole, const std::vector<tensor::Slot>& slots,
               const tensor::Arena& weights);
  /// Makes room for what workers have, where answers are coded: of `owned` elements beside the weights, for
  /// each worker.
  void prepare(std::size_t owned, int workers, const tensor::Arena& weights);
  /// Workers have the part of the weights. For bodies of kernels.
  void begin(const OwnedPart& part, const tensor::Arena& weights) const;
  /// What workers have, a part of the training's state: "given 0", ...
  std::vector<std::pair<std::string, tensor::Arena*>> state();

  /// `values` := what a worker's wire stands for.
  task::Task<void> decode(const OwnedPart* part, int worker, std::int64_t round, View wire, View values);
  /// The wire of how far the owner's values went from what the worker has, which afterwards is what it has.
  task::Task<void> answer_difference(const OwnedPart* part, int worker, std::int64_t version, View wire);

  // Of codecs that ask for more (Sketched-SGD: Ivkin et al., NeurIPS 2019).
  /// All workers have handed in and wait: sketches are added up, the sum says where the large values must be,
  /// the workers say what they are. `values` := their sum, part->chosen: where. `wires` and `workers` in the
  /// same order; overwrites the first wire.
  task::Task<void> query(OwnedPart* part, std::int64_t round, std::vector<View> wires,
                         std::vector<Channel*> workers, View values);
  /// The owner's values of the entries that counted.
  task::Task<void> answer_chosen(const OwnedPart* part, View wire);

 private:
  task::Task<void> add_wires(const OwnedPart* part, DType type, const std::vector<View>* wires);

  comm::Communicator& group_;
  const std::unique_ptr<ServerCoders> coders_;
  const ServerState& owner_;
  std::vector<tensor::Arena> given_;  // [worker]: what it has, of owned elements, where answers are coded
};

}  // namespace taxon::exchange
