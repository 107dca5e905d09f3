"""The include arrows: src/README.md's table is the rule; the includes and src/CMakeLists.txt must agree with it."""

import re

_ROW = re.compile(r"^\| `(\w+)/` \|[^|]*\| ([^|]*) \|$", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_MODULE = re.compile(r"^\s*taxon_module\((\w+)([^)]*)\)", re.MULTILINE)

# Libraries whose headers are dear or must stay behind one door -> the only folders that may see them.
_CAGED = {
    r"(torch|ATen|c10|caffe2)/": ("src/model/torch/",),
    r"(ucp|uct|ucs|ucm)/": ("src/net/ucx/",),
    r"(grpc|grpcpp)/": ("src/net/grpc/",),
}

# Headers of the system in a folder that has a module's name.
_OF_THE_SYSTEM = ("net/if.h",)


def read_table(readme):
    """module -> the modules that it may include."""
    rows = _ROW.findall(readme)
    table = {}
    for name, cell in rows:
        if "all of the above" in cell:
            table[name] = {*table}
        else:
            table[name] = {word for word in re.findall(r"\w+", cell) if word in dict(rows)}
    return table


# Modules that never see each other, not even through others, whatever the table says: what is simulated must not know it,
# and the simulator must not have collectives or an exchange of its own.
_STRANGERS = (("sim", "exchange"), ("sim", "train"), ("sim", "optim"), ("sim", "model"), ("control", "net"))


def _reach(table, module):
    """Everything that a module sees, directly or not."""
    seen, left = set(), [module]
    while left:
        for other in table.get(left.pop(), ()):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def check_strangers(table):
    found = []
    for one, other in _STRANGERS:
        for a, b in ((one, other), (other, one)):
            if b in _reach(table, a):
                found.append(f"src/README.md: {a} may not see {b}, not even through others")
    return found


def check_includes(sources, table):
    found = []
    for source in sources:
        for match in _INCLUDE.finditer(source.text):
            where, header = f"{source.path}:{source.line(match.start(2))}", match.group(2)
            for pattern, folders in _CAGED.items():
                if re.match(pattern, header) and not source.path.startswith(folders):
                    found.append(f"{where}: <{header}> may be included in {' and '.join(folders)} only")
            if source.module is None:
                continue
            if source.module not in table:
                found.append(f"{source.path}: module {source.module} is not in the table of src/README.md")
                break
            target = header.split("/")[0]
            if match.group(1) == '"' and "/" not in header:
                found.append(f'{where}: "{header}" is not a full path such as "{source.module}/{header}"')
            elif match.group(1) == "<" and header in _OF_THE_SYSTEM:
                continue
            elif target in table and target != source.module and target not in table[source.module]:
                found.append(f"{where}: {source.module} may not include {target} (src/README.md)")
    return found


def check_build(cmake, table):
    found = []
    for name, arguments in _MODULE.findall(cmake):
        deps = re.search(r"DEPS([^A-Z]*)", arguments)
        for dep in deps.group(1).split() if deps else []:
            if dep not in table.get(name, ()):
                found.append(f"src/CMakeLists.txt: {name} may not depend on {dep} (src/README.md)")
    return found
