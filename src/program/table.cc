#include "base/table_row.h"
#include "program/schedule.h"

namespace taxon::program {

std::span<const ScheduleRow> schedule_table() {
  static const ScheduleRow kRows[] = {
      TAXON_ROW(ScheduleRow, data_parallel), TAXON_ROW(ScheduleRow, gpipe),
      TAXON_ROW(ScheduleRow, one_f_one_b),   TAXON_ROW(ScheduleRow, interleaved),
      TAXON_ROW(ScheduleRow, zb_h1),         TAXON_ROW(ScheduleRow, pipedream),
      TAXON_ROW(ScheduleRow, pipedream_2bw),
  };
  return kRows;
}

}  // namespace taxon::program
