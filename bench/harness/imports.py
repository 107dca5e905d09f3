"""Of which files of bench/ a benchmark is made."""
import ast
import os

from harness.build import ROOT

FOLDER = "bench"


def names_in(text):
    """What a module's text imports, wherever in it: of `from a.b import c` both a.b and a.b.c, since c may be a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def files_of(module, root=ROOT):
    """The module's own and those of what it imports out of bench/, and of what that does; sorted, from the root."""
    found, waiting = set(), [module]
    while waiting:
        path = f"{FOLDER}/{waiting.pop().replace('.', '/')}.py"
        if path not in found and os.path.exists(os.path.join(root, path)):
            found.add(path)
            with open(os.path.join(root, path)) as file:
                waiting += names_in(file.read())
    return sorted(found)
