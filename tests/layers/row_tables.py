"""A row that no table names is a file that is compiled and does nothing: nothing else would tell who forgot it."""

import re

_ROW = re.compile(r"^(\w+Row) (\w+)\(\) \{", re.MULTILINE)
_HOMES = re.compile(r"src/(.+/)?(rows|formats|transforms|networks|rules|schedules|topologies|consistency|outer|staleness)/")


def check_row_tables(sources):
    tables = {source.path: source.code for source in sources if source.path.endswith("table.cc") or "TAXON_ROW(" in source.code}
    violations, found = [], 0
    for source in sources:
        if not _HOMES.match(source.path):
            continue
        for kind, name in _ROW.findall(source.code):
            found += 1
            named = re.compile(rf"\b{name}\b")
            if not any(named.search(code) for path, code in tables.items() if path != source.path or "TAXON_ROW(" in source.code):
                violations.append(f"{source.path}: {kind} {name}() is in no table; add it to the table of its folder's rows")
    return violations if found else ["tests/layers/row_tables.py: no row was found"]
