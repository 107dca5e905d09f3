"""Result rows: kept as they are finished, printed as a table, written as JSON."""
import dataclasses
import json
import os
import re
import sys


@dataclasses.dataclass
class Row:
    """One figure beside a peer's and beside what physics allows. None where something does not apply."""
    bench: str
    case: str
    transport: str = None
    ranks: int = None
    bytes: int = None
    ours: float = None
    unit: str = None
    peer: str = None
    theirs: float = None
    ratio: float = None  # above 1: Taxon is better
    spread: float = None  # distance between the quartiles of the pairwise ratios over their median
    bound: float = None
    of_bound: float = None
    verified: bool = None
    goal: str = None  # what is wanted of it, in words
    met: bool = None  # whether that was measured
    settings: dict = dataclasses.field(default_factory=dict)

    def key(self):
        """What names a row; its transport, which a run may choose by itself, does not."""
        return (self.bench, self.case, self.ranks, self.bytes, self.peer)

    def want(self, figure, at_least=None, at_most=None):
        """Sets the goal: a member, or one of `settings`, that may not be below or above a limit. A figure that is missing misses it."""
        value = self.figure(figure)
        sides = [(word, limit, keeps) for word, limit, keeps in (("at least", at_least, lambda v: v >= at_least), ("at most", at_most, lambda v: v <= at_most))
                 if limit is not None]
        words = figure.replace("_", " ")
        self.goal = words + " " + " and ".join(f"{word} {limit:g}" for word, limit, _ in sides)
        self.met = value is not None and all(keeps(value) for _, _, keeps in sides)
        return self

    def figure(self, name):
        """A member, or one of `settings`."""
        return getattr(self, name) if hasattr(self, name) else self.settings.get(name)

    def wanted_figure(self):
        """REQUIRES: a goal."""
        return self.figure(re.split(" at (?:least|most) ", self.goal)[0].replace(" ", "_"))


CLAIM = "goal: "


def is_claim(row):
    return row.case.startswith(CLAIM)


def claim(bench, what, values, measure, at_least=None, at_most=None, unit=None):
    """The row of a goal that several rows meet together: `measure` of their figures. None without figures: nobody was asked."""
    figures = [value for value in values if value is not None]
    if not figures:
        return None
    return Row(bench, CLAIM + what, unit=unit, ours=measure(figures), settings={"figures": len(figures)}).want("ours", at_least, at_most)


def judge(claims, rows):
    """The rows of goals that several of `rows` meet together, as a benchmark's claims() says; none without one."""
    return [row for row in (claims([row for row in rows if not is_claim(row)]) if claims else ()) if row]


class RowStore:
    """Rows of one run. With a state file, the rows that an interrupted run of the same kind has finished are there already."""

    def __init__(self, kind, state_path=None, only=(), more=None, judges=True):
        """`kind` is what must be equal for old rows to count: benchmark, mode, commit, machine. Every row records it, and `more`. `only`: parts of
        the cases that are wanted; empty: all. Without `judges` no goal is missed: too little is measured."""
        self.rows = []
        self.kind = kind
        self.more = more or {}
        self.only = only
        self.judges = judges
        self.cases = {}  # that the benchmark has asked about or measured: whether they are wanted
        self.skipped = []  # what this machine can't measure
        self.state_path = state_path
        if not state_path:
            return
        lines = whole_lines(state_path)
        if lines and lines[0] == kind and is_known(kind.get("commit")):
            # What was wrong is measured again, and what several rows come to is judged anew.
            found = [Row(**line) for line in lines[1:]]
            self.rows = list({row.key(): row for row in found if row.verified is not False and not is_claim(row)}.values())
            print(f"resuming: {len(self.rows)} rows are finished ({state_path})", file=sys.stderr)
        with open(state_path, "w") as out:
            for line in [kind, *map(dataclasses.asdict, self.rows)]:
                out.write(json.dumps(line) + "\n")

    def has(self, row):
        """Nothing is to be done for it: it is finished, or nobody wants it."""
        return not self.wants(row.case) or any(row.key() == known.key() for known in self.rows)

    def wants(self, case):
        self.cases[case] = not self.only or any(part in case for part in self.only)
        return self.cases[case]

    def results(self):
        """What is wanted, and what that comes to. The other rows were measured beside it: it is compared with them."""
        return [row for row in self.rows if self.is_result(row)]

    def is_result(self, row):
        return is_claim(row) or self.wants(row.case)

    def find(self, row):
        return next((known for known in self.rows if known.key() == row.key()), None)

    def add(self, row):
        row.settings = {**row.settings, "run": {**self.kind, **self.more}}
        if not self.judges:
            row.met = None
        self.rows = [known for known in self.rows if known.key() != row.key()] + [row]
        if self.is_result(row):
            print(format_line(row), flush=True)
        if self.state_path:
            with open(self.state_path, "a") as out:
                out.write(json.dumps(dataclasses.asdict(row)) + "\n")

    def finish(self):
        if self.state_path:
            os.remove(self.state_path)


def is_known(commit):
    """Whether it says which code was measured."""
    return bool(commit) and not commit.endswith("-dirty")


def whole_lines(path):
    """The lines of a state file up to the first that was cut short."""
    lines = []
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                try:
                    lines.append(json.loads(line))
                except json.JSONDecodeError:
                    break
    return lines


def format_bytes(count):
    if count is None:
        return "-"
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


def format_number(value, suffix=""):
    return "-" if value is None else f"{value:.4g}{suffix}"


def percent(value):
    return "-" if value is None else f"{100 * value:.1f} %"


COLUMNS = (
    ("case", 30, lambda row: row.case),
    ("transport", 14, lambda row: row.transport or "-"),
    ("ranks", 5, lambda row: str(row.ranks) if row.ranks else "-"),
    ("size", 8, lambda row: format_bytes(row.bytes)),
    ("Taxon", 9, lambda row: format_number(row.ours)),
    ("theirs", 9, lambda row: format_number(row.theirs)),
    ("unit", 10, lambda row: row.unit or "-"),
    ("peer", 24, lambda row: row.peer or "-"),
    ("ratio", 7, lambda row: format_number(row.ratio, "x")),
    ("spread", 7, lambda row: percent(row.spread)),
    ("bound", 9, lambda row: format_number(row.bound)),
    ("of bound", 8, lambda row: percent(row.of_bound)),
    ("verified", 8, lambda row: {True: "yes", False: "NO", None: "-"}[row.verified]),
    ("goal", 6, lambda row: {True: "met", False: "MISSED", None: "-"}[row.met]),
)


def format_header():
    return "  ".join(name.ljust(width) for name, width, _ in COLUMNS).rstrip()


def format_line(row):
    return "  ".join(cell(row).ljust(width) for _, width, cell in COLUMNS).rstrip()


def write_json(path, rows):
    """An array of rows, one a line."""
    with open(path + ".new", "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(dataclasses.asdict(row)) for row in rows) + "\n]\n")
    os.replace(path + ".new", path)
