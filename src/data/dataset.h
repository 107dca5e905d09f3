#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "data/fault_log.h"
#include "data/sample_shape.h"
#include "data/storage.h"
#include "plan/catalogue.h"
#include "plan/plan.h"
#include "tensor/device.h"

namespace taxon::data {

/// Where samples are written: of each input, and of what is to be learnt, one after the other.
struct Rooms {
  std::vector<Room> inputs;
  Room labels;
  /// Of one of so many samples.
  Rooms of(std::size_t sample, std::size_t samples) const;
};

/// Samples with what is to be learnt of them, addressable by index. Immutable and safe for concurrent
/// readers; the same index gives the same bits whoever reads it. A class has one of read(), read_tokens() and
/// read_parts() of its own; the others follow from it.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const SampleShape& shape() const = 0;
  /// Writes the normalised inputs of `indices`, one after the other, and their labels. REQUIRES: inputs are
  /// float32; inputs.size() == indices.size() * elements per sample, and labels likewise; indices in range.
  /// Throws Error{Data} for a sample that turns out to be faulty, where the plan does not say to skip it;
  /// otherwise the next one that is not takes its place.
  virtual void read(std::span<const std::int64_t> indices, std::span<float> inputs,
                    std::span<std::int64_t> labels) const;
  /// The same. REQUIRES: inputs are int64.
  virtual void read_tokens(std::span<const std::int64_t> indices, std::span<std::int64_t> inputs,
                           std::span<std::int64_t> targets) const;
  /// The same for samples of any shape, with rooms of its types. `epoch`, of training: what is drawn at
  /// random depends on it and on the index alone; none: nothing is.
  virtual void read_parts(std::optional<std::int64_t> epoch, std::span<const std::int64_t> indices,
                          const Rooms& rooms) const;
  /// Reads one sample. False: it turns out to be faulty, which the log of faults has, and the plan says to
  /// leave such out.
  virtual bool read_usable(std::int64_t index, const Rooms& room) const {
    read_parts({}, {&index, 1}, room);
    return true;
  }
  /// Whether read_usable() may say no.
  virtual bool may_leave_out() const { return false; }
  /// True if reading takes so long (files, decoding) that threads had better share a batch.
  virtual bool is_slow() const { return false; }
  /// What reading so many samples costs, for the virtual world.
  virtual tensor::Cost cost(std::int64_t samples) const;
};

/// Samples in memory, as their shape says.
struct Samples {
  std::vector<Elements> parts;  // inputs
  Elements labels;
  Samples() = default;
  Samples(std::vector<Elements> inputs, Elements learnt)
      : parts(std::move(inputs)), labels(std::move(learnt)) {}
  /// Zeroes.
  Samples(const SampleShape& shape, std::size_t size);
  Inputs inputs() const { return Inputs(std::vector<Values>(parts.begin(), parts.end())); }
  std::size_t bytes() const;
  /// Of some of them.
  Rooms rooms(const SampleShape& shape, Range samples);
};
/// As Dataset::read_parts(), into memory of its own.
Samples read_samples(const Dataset& dataset, std::span<const std::int64_t> indices);

/// What read_parts() does where samples may turn out to be faulty: of the `size` samples of a set, which are
/// those that `in_whole` says, the next one takes a faulty one's place. Throws Error{Data} if all are faulty.
void read_usable(const Dataset& whole, std::int64_t size,
                 const std::function<std::int64_t(std::int64_t)>& in_whole,
                 std::span<const std::int64_t> indices, const Rooms& rooms);

/// What a plan names.
struct Datasets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;             // null: there is none
  std::unique_ptr<Dataset> validation = {};  // a set of its own; null: none
  std::shared_ptr<FaultLog> faults = {};     // null: the data set keeps none
};

/// What a data set is opened from.
struct OpenContext {
  const plan::DataPlan& plan;
  const Storage& storage;  // outlives the data sets
  std::shared_ptr<FaultLog> faults;
};

/// A format, described.
struct DatasetRow {
  std::string_view name;
  std::string_view sentence;
  /// Throws Error{Data} that names the file and what is wrong with it: missing, truncated, foreign, halves
  /// that don't fit together; what concerns single samples goes to the log of faults. The validation set is
  /// opened where the plan has a path of it.
  Datasets (*open)(const OpenContext& context) = nullptr;
  std::vector<plan::OptionKey> (*options)() = nullptr;  // keys of its own beside those of `data`
  std::span<const plan::PlanRule> rules = {};           // what makes no sense with it
  bool by_class = false;      // samples may lie class by class: which are the first is always drawn
  bool has_path = true;       // `data.path` says where it lies
  bool gives_tokens = false;  // samples are tokens, with one target each
};
/// One file for each format in data/formats.
std::span<const DatasetRow> dataset_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const DatasetRow& find_dataset(std::string_view name, std::span<const DatasetRow> own = {});
/// For plan::check_plan().
std::vector<plan::Catalogue::Dataset> known_datasets(std::span<const DatasetRow> own = {});

/// The data sets as they lie in their files, cut to the plan's limits. `storage` outlives them. Throws
/// Error{Usage} for a name that no row has, Error{Data} as DatasetRow::open, or if the test or the validation
/// set has samples of another shape.
Datasets open_datasets(const plan::DataPlan& plan, const Storage& storage,
                       std::span<const DatasetRow> own = {});

}  // namespace taxon::data
