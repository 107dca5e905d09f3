"""What GCC 12 gets wrong about coroutines, and what no coroutine survives.

GCC 12 copies some temporaries of a co_await expression bit by bit and destroys both: an aggregate that braces or parentheses
build, a lambda's captures, what a conditional operator chooses. So the operand of co_await is a name, or a call of a name whose
arguments are names, scalars, members and calls again; whatever else it needs is named in a statement before. The forms that pass
here are those of tests/task/coroutine_forms_test.cc. A default argument that braces build is such a temporary too, though no
operand shows it. A lambda's captures die with the lambda, not with the coroutine that it started.
"""

import re

from cpp_text import closing

_KEYWORD = re.compile(r"\bco_(?:await|return|yield)\b")
# What may stand between the start of the statement and co_await.
_BEFORE = re.compile(r"^(?:.*[^=!<>]=\s*|\s*(?:co_return|return)[\w\s+*!-]*|.*\b(?:if|while|switch)\s*\(\s*!?\s*|\s*\(void\)\s*|"
                     r".*\)\s*|\s*else\s*|\s*)$", re.DOTALL)
_LAMBDA = re.compile(r"(?<![\w\])])\[(?P<captures>[^\[\]]*)\]\s*(?=[({<])")

_NAME = re.compile(r"\s*(?:::)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*")
_TYPES = re.compile(r"<[\w\s:,*&<>]*>(?=\s*\()")  # template arguments of a call
_NUMBER = re.compile(r"\s*(?:\d|\.\d)[\w.']*")
_UNARY = re.compile(r"\s*(?:[-+~*!]|&(?!&))")
_BINARY = re.compile(r"\s*(?:<<|>>|[=!<>]=|[-+*/%<>^]|&(?!&)|\|(?!\|))(?!=)")  # && and || choose, as ? does
_MEMBER = re.compile(r"\s*(?:\.|->)\s*(?:template\s+)?(~?[A-Za-z_]\w*)")
_KEYWORDS = {"co_await", "co_yield", "new", "throw", "delete", "typename", "operator"}

# File and operand of awaits that break the rule on purpose.
_ALLOWED = {("tests/task/coroutine_forms_test.cc", "aggregate({n.counted, 1})")}


def _arguments(code, at):
    """Where the list that opens at `at` ends, or None: expressions, separated by commas."""
    close = {"(": ")", "[": "]"}[code[at]]
    at = _space(code, at + 1)
    if code[at : at + 1] == close:
        return at + 1
    while at is not None:
        at = _expression(code, at)
        if at is None:
            return None
        at = _space(code, at)
        if code[at : at + 1] == close:
            return at + 1
        at = at + 1 if code[at : at + 1] == "," else None
    return None


def _space(code, at):
    while at < len(code) and code[at].isspace():
        at += 1
    return at


def _expression(code, at):
    while True:
        while match := _UNARY.match(code, at):
            at = match.end()
        number = _NUMBER.match(code, at)
        at = number.end() if number else _path(code, at)
        operator = at is not None and _BINARY.match(code, at)
        if not operator:
            return at
        at = operator.end()


def _path(code, at):
    """Where a name ends with its members, subscripts and calls; or an expression in parentheses with them."""
    at = _space(code, at)
    if code[at : at + 1] == "(":
        name, at = "", _arguments(code, at)
    else:
        match = _NAME.match(code, at)
        if not match or match.group().strip() in _KEYWORDS:
            return None
        name, at = match.group().split("::")[-1].strip(), match.end()
        types = _TYPES.match(code, at)
        at = types.end() if types else at
    while at is not None:
        after = _space(code, at)
        member = _MEMBER.match(code, at)
        if member:
            name, at = member.group(1), member.end()
            types = _TYPES.match(code, at)
            at = types.end() if types else at
        elif code[after : after + 1] in ("(", "["):
            if code[after] == "(" and name[:1].isupper():
                return None  # builds a class, maybe an aggregate
            at = _arguments(code, after)
        else:
            return at
    return None


def operand_end(code, at):
    """Where the operand of a co_await ends that begins at `at`; None if the rule forbids it."""
    suspend = re.compile(r"\s*std::suspend_always\{\}").match(code, at)
    if suspend:
        return suspend.end()
    at = _space(code, at)
    return _path(code, at + 1 if code[at : at + 1] == "*" else at)


def _full_expression_end(code, at):
    """The end of the expression around `at`: a semicolon, a body, or the bracket that closes a condition."""
    while at < len(code) and code[at] not in ";{)]}":
        at = closing(code, at) + 1 if code[at] in "([" else at + 1
    return at


# A default argument that braces build, and types for which that is safe: they have constructors, or hold scalars alone.
_BRACED_DEFAULT = re.compile(r"(?P<type>[\w:<>*&][\w:<>\s*&]*?)\s*\b\w+\s*=\s*(?:[\w:]+(?:<[^()]*>)?\s*)?\{[^{}]*\}\s*(?=[,)])")
_SAFE_DEFAULT = re.compile(r"(?:const\s+)?(?:std::(?:string|string_view|optional|span|vector|function|unique_ptr|shared_ptr)\b"
                           r"|(?:taxon::)?(?:Const)?View\b|(?:tensor::)?Cost\b|FrameLimits\b)")


def _called_at(code, at):
    """The name before the parenthesis that is open at `at`, or None."""
    depth = 0
    for i in range(at - 1, -1, -1):
        if code[i] in ")]}":
            depth += 1
        elif code[i] in "([{":
            depth -= 1
            if depth < 0:
                name = re.search(r"(\w+)\s*\Z", code[max(0, i - 80) : i]) if code[i] == "(" else None
                return name and name.group(1)
        elif code[i] == ";" and depth == 0:
            return None
    return None


def functions_with_braced_defaults(sources):
    found = set()
    for source in sources:
        code = source.code
        for match in _BRACED_DEFAULT.finditer(code):
            if not _SAFE_DEFAULT.match(match.group("type")):
                found.add(_called_at(code, match.start()))
    return found - {None}


def _awaits(source, braced_defaults):
    code = source.code
    for match in re.finditer(r"\bco_await\b", code):
        where = f"{source.path}:{source.line(match.start())}:"
        start = max(code.rfind(c, 0, match.start()) for c in ";{}") + 1
        end = operand_end(code, match.end())
        plain = end is not None and _BEFORE.match(code[start:match.start()]) and re.match(r"\s*(?:[;)&|<>=!+\-*/]|\Z)", code[end:])
        if plain:
            whole = code[start : _full_expression_end(code, end)]
            plain = '"' not in whole and "?" not in whole and "[=" not in whole
        if plain:
            for name in set(re.findall(r"(\w+)\s*\(", code[match.end() : end])) & braced_defaults:
                yield f"{where} co_await of a call of {name}(), one of which has a default argument that braces build; await a named task"
        elif (source.path, code[match.end():].split(";")[0].strip()) not in _ALLOWED:
            yield (f"{where} co_await of more than a call of names, scalars and calls; first name what braces, a lambda, a literal text, "
                   "a class or `?` build, or the whole task: `auto task = f(...);` and `co_await task;`")


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
    braced_defaults = functions_with_braced_defaults(sources)
    for source in sources:
        found += [*_awaits(source, braced_defaults), *_catches(source)]
        if not source.path.startswith("tests/"):  # tests/support/ranks.h keeps its lambdas alive
            found += _lambdas(source)
    return found
