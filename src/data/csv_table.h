#pragma once

#include <string>
#include <vector>

#include "data/fault_log.h"
#include "data/storage.h"

namespace taxon::data {

/// Rows of numbers, of one length.
struct CsvTable {
  std::vector<std::string> header;  // empty: there was none
  std::size_t columns = 0;
  std::vector<double> values;      // row after row
  std::vector<std::int64_t> rows;  // of the file, from 1: where each comes from
};

enum class CsvHeader : std::uint8_t { Auto, Yes, No };

/// A file of separated values (RFC 4180; fields may be quoted). Rows that have another length than the first,
/// or a field that is no finite number, go to the log of faults; empty lines are passed over. Auto: the first
/// row is a header if one of its fields is no number. Throws Error{Data} naming `path` if nothing is left.
CsvTable read_csv(const Storage& storage, const std::string& path, char separator, CsvHeader header,
                  FaultLog& faults);

}  // namespace taxon::data
