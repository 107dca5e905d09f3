"""Nobody but a row's own file compares with its name: what others need to know of it, its row says."""

import re

# Where rows of the tables of a plan stand, each as `.name = "..."`.
_ROWS = ("src/codec/rows/", "src/exchange/topologies/", "src/exchange/server/servers.cc",
         "src/exchange/consistency/", "src/optim/", "src/data/formats/", "src/data/transforms/", "src/program/rows/", "src/parallel/networks/")
_NAME = re.compile(r'\.name = "([a-z0-9_-]+)"')
_COMPARED = re.compile(r'(?:[=!]=\s*"([a-z0-9_-]+)"|"([a-z0-9_-]+)"\s*[=!]=|starts_with\("([a-z0-9_-]+)"\))')


def names_of(sources):
    """Each row's name and the files that describe it."""
    found = {}
    for source in sources:
        if source.path.startswith(_ROWS):
            for name in _NAME.findall(source.text):
                found.setdefault(name, set()).add(source.path)
    return found


def check_row_names(sources):
    names = names_of(sources)
    if not names:
        return ["tests/layers/row_names.py: no row was found"]
    violations = []
    for source in sources:
        for number, line in enumerate(source.text.splitlines(), 1):
            for groups in _COMPARED.findall(line.split("//")[0]):
                name = next(filter(None, groups))
                if source.path not in names.get(name, {source.path}):
                    violations.append(f"{source.path}:{number}: compares with {name}, a row's name; ask its row")
    return violations
