#!/usr/bin/env python3
"""check.py [ROOT]: the rules that a compiler does not know. Prints what breaks them; exit code 1 if anything does."""

import pathlib
import sys

import arrows
import coroutines
import cpp_text
import doors
import hash_order
import initialisers
import row_names
import row_tables


def check_tree(root):
    root = pathlib.Path(root)
    table = arrows.read_table((root / "src/README.md").read_text(encoding="utf-8"))
    if not table:
        return ["src/README.md: the table of modules was not found"]
    library = cpp_text.read_tree(root, ["src"])
    everything = library + cpp_text.read_tree(root, ["apps", "tests", "examples", "bench"])
    return [
        *arrows.check_strangers(table),
        *arrows.check_includes(library + cpp_text.read_tree(root, ["apps"]), table),
        *arrows.check_build((root / "src/CMakeLists.txt").read_text(encoding="utf-8"), table),
        *doors.check_doors(library),
        *hash_order.check_hash_order(library + cpp_text.read_tree(root, ["apps"])),
        *initialisers.check_initialisers(library + cpp_text.read_tree(root, ["apps"])),
        *coroutines.check_coroutines(everything),
        *row_names.check_row_names(library + cpp_text.read_tree(root, ["apps"])),
        *row_tables.check_row_tables(library),
    ]


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parents[2]
    violations = check_tree(sys.argv[1] if len(sys.argv) > 1 else default)
    print("\n".join(violations) or "layers, doors, hash order, initialisers, coroutines, names of rows and their tables: nothing to say")
    sys.exit(1 if violations else 0)
