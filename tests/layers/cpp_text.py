"""C++ sources as the checks see them: no comments, no contents of literals, the same lines and columns."""

import dataclasses
import pathlib
import re

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def _hide(match):
    text = match.group()
    if text.startswith("/"):
        return _blank(text)
    return '"' + _blank(text[1:-1]) + '"'


def code_only(text):
    return _TOKEN.sub(_hide, text)


def closing(text, start):
    """The index of the bracket that closes the one at `start`, or the end of the text."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    stack = []
    for i in range(start, len(text)):
        if text[i] in pairs:
            stack.append(pairs[text[i]])
        elif text[i] in pairs.values():
            if stack.pop() != text[i]:
                return len(text)  # a macro's unbalanced text: nothing to say about it
            if not stack:
                return i
    return len(text)


@dataclasses.dataclass(frozen=True)
class Source:
    path: str  # from the root, with slashes
    text: str

    @property
    def code(self):
        return code_only(self.text)

    def line(self, offset):
        return self.text.count("\n", 0, offset) + 1

    @property
    def module(self):
        """The folder under src/, or None."""
        parts = self.path.split("/")
        return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def read_tree(root, folders):
    root = pathlib.Path(root)
    files = [p for folder in folders for p in (root / folder).rglob("*") if p.suffix in (".cc", ".h")]
    return [Source(p.relative_to(root).as_posix(), p.read_text(encoding="utf-8")) for p in sorted(files)]
