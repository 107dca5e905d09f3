#include "base/table_row.h"
#include "parallel/network.h"

namespace taxon::parallel {

std::span<const NetworkRow> network_table() {
  static const NetworkRow kRows[] = {
      TAXON_ROW(NetworkRow, vgg_a),   TAXON_ROW(NetworkRow, overfeat_fast), TAXON_ROW(NetworkRow, cd_dnn),
      TAXON_ROW(NetworkRow, alexnet), TAXON_ROW(NetworkRow, gpt),
  };
  return kRows;
}

}  // namespace taxon::parallel
