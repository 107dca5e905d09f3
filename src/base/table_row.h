#pragma once

// What a table of rows names: the row of each file, made by a function of that file which has no header.

/// The row that `name()` of the namespace around returns.
#define TAXON_ROW(Row, name) \
  [] {                       \
    extern Row name();       \
    return name();           \
  }()
