#!/usr/bin/env python3
"""Writes a table of mlbench (Debian's r-cran-mlbench) as CSV with a header, which data set `csv` reads: every tenth row in FOLDER/test.csv, all others in
FOLDER/train.csv. Factors become numbers from 0 on, in the order of their levels; rows with missing values are left out.

    export_mlbench.py BostonHousing data/boston-housing            # 13 columns, and medv, the median value of homes in a tract, in thousands of dollars
    export_mlbench.py LetterRecognition data/letters               # lettr, one of 26, and 16 columns
"""
import argparse
import bz2
import gzip
import lzma
import math
import struct
import sys
from pathlib import Path

FOLDER = Path("/usr/lib/R/site-library/mlbench/data")
MISSING_INTEGER = -(1 << 31)
OPENERS = {b"\x1f\x8b": gzip.decompress, b"BZ": bz2.decompress, b"\xfd7": lzma.decompress}


class Reader:
    """R's serialization, format X, versions 2 and 3 ("R Internals", 1.8): as much of it as tables need."""

    def __init__(self, content):
        self.content, self.at, self.symbols = content, 0, []

    def take(self, size):
        self.at += size
        return self.content[self.at - size : self.at]

    def integer(self):
        return struct.unpack(">i", self.take(4))[0]

    def several(self, letter, size):
        count = self.integer()
        return list(struct.unpack(f">{count}{letter}", self.take(count * size)))

    def head(self):
        assert self.take(5) in (b"RDX2\n", b"RDX3\n") and self.take(2) == b"X\n", "no file of R's save()"
        version = self.integer()
        self.take(8)
        if version == 3:
            self.take(self.integer())

    def pairs(self, flags):
        found = {}
        while flags & 0xFF == 2:  # a pair list; a bit each: attributes, a tag
            if flags & 0x200:
                self.item()
            tag = self.item() if flags & 0x400 else None
            found[tag] = self.item()
            flags = self.integer()
        return found

    def item(self):
        """A value, or of what has attributes the value and they."""
        flags = self.integer()
        kind = flags & 0xFF
        if kind == 254:
            return None
        if kind == 255:
            return self.symbols[(flags >> 8) - 1]
        if kind == 1:
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == 2:
            return self.pairs(flags)
        if kind == 9:
            size = self.integer()
            return None if size < 0 else self.take(size).decode()
        if kind in (10, 13):
            value = self.several("i", 4)
        elif kind == 14:
            value = self.several("d", 8)
        elif kind in (16, 19):
            value = [self.item() for _ in range(self.integer())]
        else:
            raise ValueError(f"a value of R's type {kind}")
        return (value, self.pairs(self.integer())) if flags & 0x200 else value


def columns_of(path):
    content = path.read_bytes()
    reader = Reader(OPENERS.get(content[:2], bytes)(content))
    reader.head()
    (table,) = reader.pairs(reader.integer()).values()
    columns, attributes = table
    return {name: numbers(column) for name, column in zip(attributes["names"], columns)}


def numbers(column):
    values, attributes = column if isinstance(column, tuple) else (column, {})
    values = [None if value == MISSING_INTEGER or math.isnan(value) else value for value in values]
    return [value - 1 if value is not None and "levels" in attributes else value for value in values]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TABLE", help="such as BostonHousing")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--from", dest="source", type=Path, default=FOLDER, help="where the tables lie (default %(default)s)")
    arguments = parser.parse_args()
    path = arguments.source / f"{arguments.table}.rda"
    if not path.is_file():
        sys.exit(f"there is no {path}: apt-get install r-cran-mlbench")
    columns = columns_of(path)
    rows = [row for row in zip(*columns.values()) if None not in row]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, mine in (("train", [row for i, row in enumerate(rows, 1) if i % 10]), ("test", rows[9::10])):
        lines = [",".join(columns), *(",".join(f"{value:.10g}" for value in row) for row in mine)]
        (arguments.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        print(f"{arguments.folder / name}.csv: {len(mine)} rows")


if __name__ == "__main__":
    main()
