#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/layer.h"
#include "plan/options.h"

namespace taxon::parallel {

/// A network as a chain of layers. Shapes only: what is trained is model.name.
struct Network {
  std::string name;
  std::string sample = "sample";  // what one is: "image"
  std::vector<Layer> layers;      // in forward order; pooling and activations are in the shapes alone
};
std::int64_t parameters(const Network& network);
/// Of one sample.
double forward_macs(const Network& network);
double training_flops(const Network& network);

/// A published network, described.
struct NetworkRow {
  std::string_view name;
  std::string_view sentence;
  std::string_view source;
  int batch = 0;  // samples of a step, as published
  // Filled in by network_row().
  std::vector<plan::OptionKey> (*options)() = nullptr;
  Network (*make)(const plan::Options&) = nullptr;
};

/// Rows without keys of their own.
struct NoOptions {};
template <plan::Like<NoOptions> O, class V>
void visit_fields(O&, V&&) {}

/// A row whose keys are those of the struct O; `make` is a lambda without captures that makes the layers of
/// one. It throws Error{Usage} for values that contradict each other.
template <class O, class Make>
NetworkRow network_row(NetworkRow row, Make) {
  row.options = plan::option_keys<O>;
  row.make = [](const plan::Options& options) -> Network { return Make{}(options.read<O>()); };
  return row;
}

/// parallel/table.cc.
std::span<const NetworkRow> network_table();
/// The row of that name. Throws Error{Usage} for a name that nothing has.
const NetworkRow& find_network(std::string_view name);
/// Throws Error{Usage} that lists every key that the row lacks and every value that is not allowed.
Network make_network(const NetworkRow& row, const plan::Options& options = {});

}  // namespace taxon::parallel
