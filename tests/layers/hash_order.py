"""Hash order: nothing iterates a hash container, because its order differs from run to run and from machine to machine,
and decides what is sent or summed first."""

import re

from cpp_text import closing

_DECLARED = re.compile(r"\bstd::(?:pmr::)?unordered_(?:multi)?(?:map|set)\s*<")
_NAME = re.compile(r"\s*[&*]?\s*(\w+)\s*(?=[;={(,)])")


def _end_of_template(code, start):
    """Behind the > that closes the < at `start`."""
    depth = 0
    for i in range(start, len(code)):
        if code[i] == "<":
            depth += 1
        elif code[i] == ">" and code[i - 1] != "-":
            depth -= 1
            if depth == 0:
                return i + 1
    return len(code)


def _names(code):
    for match in _DECLARED.finditer(code):
        name = _NAME.match(code, _end_of_template(code, match.end() - 1))
        if name:
            yield name.group(1)


def _iterations(code, names):
    # A temporary has no name.
    for match in re.finditer(r"\bfor\s*\([^;{}]*:\s*std::unordered_", code):
        yield match.start()
    if not names:
        return
    any_name = "|".join(map(re.escape, sorted(names)))
    for match in re.finditer(rf"\b(?:{any_name})\s*(?:\.|->)\s*c?r?begin\s*\(", code):
        yield match.start()
    for match in re.finditer(r"\bfor\s*\(", code):
        inside = code[match.end():closing(code, match.end() - 1)]
        if re.search(rf"[^:]:\s*(?:\*?\w+(?:\.|->))*\*?(?:{any_name})\s*$", inside):
            yield match.start()


def check_hash_order(sources):
    """A member's header and its source share names, so all files of a folder are one."""
    names = {}
    for source in sources:
        folder = source.path.rsplit("/", 1)[0]
        names.setdefault(folder, set()).update(_names(source.code))
    found = []
    for source in sources:
        own = names[source.path.rsplit("/", 1)[0]]
        for offset in _iterations(source.code, own):
            found.append(f"{source.path}:{source.line(offset)}: a hash container is iterated; its order is nobody's: "
                         "use std::map, or a vector beside it")
    return found
