"""Initialisers: what stands in a namespace has its value before any code runs, so that no file's constants depend on the
order in which a linker takes the files. A table that is `const` alone and copies another file's is empty under one linker
and full under another."""

import re

_CONST = re.compile(r"^(?:static |inline |extern )?const\s+[\w:<>, ]+?[&*]?\s+(?:\w+::)*\w+(?:\[\w*\])?\s*[={;]", re.MULTILINE)


def check_initialisers(sources):
    """Sources are formatted, so what begins in the first column stands in a namespace."""
    return [f"{source.path}:{source.line(match.start())}: a constant of a namespace is constexpr or constinit, so that no "
            "linker's order of files matters"
            for source in sources for match in _CONST.finditer(source.code)]
