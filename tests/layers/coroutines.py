"""What GCC 12 gets wrong about coroutines, and what no coroutine survives.

An aggregate, a string or a capturing lambda that is built inside a co_await expression is destroyed twice; so a
task is named in one statement and awaited in the next. A lambda's captures die with the lambda, not with the
coroutine that it started.
"""

import re

from cpp_text import closing

_KEYWORD = re.compile(r"\bco_(?:await|return|yield)\b")
# name, *name, a.b, a->b, a::b, a[i], scope.join(), std::move(name)
_NAME = r"\*?(?:\w+(?:::\w+)*)(?:(?:\.|->)\w+|\[\w+\])*(?:\(\))?(?:(?:\.|->)\w+(?:\(\))?)*"
_OPERAND = re.compile(rf"\s*(?:std::suspend_always\{{\}}|std::move\({_NAME}\)|{_NAME})\s*(?=[;)&|<>=!?:+\-*/]|\Z)")
# What may stand between the start of the statement and co_await.
_BEFORE = re.compile(r"^(?:.*[^=!<>]=\s*|\s*(?:co_return|return)[\w\s+*!-]*|.*\b(?:if|while|switch)\s*\(\s*!?\s*|\s*\(void\)\s*|"
                     r".*\)\s*|\s*else\s*|\s*)$", re.DOTALL)
_LAMBDA = re.compile(r"(?<![\w\])])\[(?P<captures>[^\[\]]*)\]\s*(?=[({<])")

# File and name of awaits that are known to be safe although the rule can't see it.
_ALLOWED = set()


def _awaits(source):
    code = source.code
    for match in re.finditer(r"\bco_await\b", code):
        start = max(code.rfind(c, 0, match.start()) for c in ";{}") + 1
        operand = _OPERAND.match(code, match.end())
        plain = operand and _BEFORE.match(code[start:match.start()])
        if plain:
            end = min(i for i in (code.find(c, operand.end()) for c in ";{") if i >= 0)
            plain = '"' not in code[start:end] and "[=" not in code[start:end]
        if not plain and (source.path, code[match.end():].split(";")[0].strip()) not in _ALLOWED:
            yield (f"{source.path}:{source.line(match.start())}: co_await of an expression; write "
                   "`auto task = f(...);` and `co_await task;` in two statements")


def _catches(source):
    code = source.code
    for match in re.finditer(r"\bcatch\s*\(", code):
        body = code.find("{", closing(code, match.end() - 1))
        if body >= 0 and re.search(r"\bco_await\b", code[body:closing(code, body)]):
            yield f"{source.path}:{source.line(match.start())}: co_await in a catch block; keep the error, await after it"


def _lambda_bodies(code):
    """(introducer's offset, captures, body's begin, body's end) of each lambda."""
    for match in _LAMBDA.finditer(code):
        i = match.end()
        while i < len(code) and code[i] not in "{;)":  # skips parameters, template parameters, the return type
            i = closing(code, i) + 1 if code[i] == "(" else i + 1
        if i < len(code) and code[i] == "{":
            yield match.start(), match.group("captures").strip(), i, closing(code, i)


def _lambdas(source):
    code = source.code
    bodies = list(_lambda_bodies(code))
    for offset, captures, begin, end in bodies:
        if not captures:
            continue
        own = code[begin:end]
        for _, _, inner, inner_end in bodies:
            if begin < inner and inner_end <= end:
                own = own[: inner - begin] + " " * (inner_end - inner) + own[inner_end - begin :]
        if _KEYWORD.search(own):
            yield (f"{source.path}:{source.line(offset)}: a capturing lambda is a coroutine; "
                   "pass what it needs as parameters")


def check_coroutines(sources):
    found = []
    for source in sources:
        found += [*_awaits(source), *_catches(source)]
        if not source.path.startswith("tests/"):  # tests/support/ranks.h keeps its lambdas alive
            found += _lambdas(source)
    return found
