"""The tables of docs, each made from rows of the ledger. A table is a row of TABLES: the file that shows it, and its lines.

A row whose code has changed since it was measured is marked with a dagger, one whose commit is not in the history at hand with a double dagger."""
import dataclasses
import importlib

from harness import imports, ledger, rows
from harness.rows import CLAIM, format_bytes, format_number, is_claim, percent

MARKS = {ledger.CURRENT: "", ledger.OLDER: " †", ledger.UNKNOWN: " ‡"}
MEANINGS = {ledger.OLDER: "† the code that it measures has changed since", ledger.UNKNOWN: "‡ how old it is can't be told here: its commit is not in this history"}


ALL = "all"


class Ages:
    """How old rows are. `paths`: benchmark -> what it measures; `age`: as ledger.age."""

    def __init__(self, paths, age=ledger.age):
        self.paths, self.age, self.known = paths, age, {}

    def of(self, row):
        commit = row.settings.get("run", {}).get("commit")
        key = (row.bench, commit)
        if key not in self.known:
            self.known[key] = self.age(commit, self.paths[row.bench])
        return self.known[key]


@dataclasses.dataclass(frozen=True)
class Table:
    """`bench`: whose rows, or ALL; `picks`: of them; `lines`: (rows, mark) -> Markdown, where mark(row) is what stands behind a row's name."""
    name: str
    file: str
    bench: str
    lines: object
    picks: object = lambda row: not is_claim(row)


def cells(*values):
    return "| " + " | ".join(values) + " |"


def head(*names):
    return [cells(*names), "|" + "---|" * len(names)]


def goal_of(row):
    return "" if row.met is None else f"{row.goal}: {'met' if row.met else '**missed**'}"


def ratio_of(row):
    if row.ratio is None:
        return ""
    return format_number(row.ratio, "x") + (f" ± {100 * row.spread / 2:.0f} %" if row.spread else "")


def listing(found, mark):
    """Every row with its peer."""
    lines = head("what", "ranks", "size", "Taxon", "peer", "", "ratio", "of the bound", "wanted")
    for row in found:
        unit = f" {row.unit}" if row.unit else ""
        lines.append(cells(row.case + mark(row), str(row.ranks or ""), format_bytes(row.bytes) if row.bytes else "", format_number(row.ours) + unit, row.peer or "",
                           format_number(row.theirs) + unit if row.theirs is not None else "", ratio_of(row), percent(row.of_bound) if row.of_bound else "", goal_of(row)))
    return lines


def claims(found, mark):
    """Goals that several rows meet together."""
    return head("what", "measured", "wanted") + [
        cells(row.case.removeprefix(CLAIM) + mark(row), format_number(row.ours), goal_of(row).removeprefix("ours ")) for row in found]


def accuracies(found, mark):
    return head("system", "accuracy, %", "lacks, points", "may lack") + [
        cells(f"`{row.case}`{mark(row)}", f"{row.ours:.2f}" if row.ours is not None else "failed", f"{row.settings['lacks']:.2f}" if "lacks" in row.settings else "",
              f"{row.settings['allowed']:.2f}" if row.settings.get("allowed") is not None else "") for row in found]


def codecs(found, mark):
    """Milliseconds of a codec, and how many times the bound."""
    places, order = {}, []
    for row in found:
        words, _, count = row.case.partition(", ")
        codec, operation = words.split()
        places[codec, operation, count] = row
        if codec not in order:
            order.append(codec)
    columns = [("encode", "1,048,576 values"), ("decode", "1,048,576 values"), ("encode", "25,000,000 values"), ("decode", "25,000,000 values")]

    def cell(codec, column):
        row = places.get((codec, *column))
        return f"{format_number(row.ours)} ({1 / row.of_bound:.2g}){mark(row)}" if row and row.ours and row.of_bound else ""

    def smaller(codec):
        return next((f"{row.settings['ratio']:.3g}" for (name, *_), row in places.items() if name == codec and "ratio" in row.settings), "")

    return head("codec", "ratio", "encode, 2^20", "decode, 2^20", "encode, 25 million", "decode, 25 million") + [
        cells(f"`{codec}`", smaller(codec), *(cell(codec, column) for column in columns)) for codec in order]


def simulated(found, mark):
    """Simulated beside real milliseconds; what scatters over the turns is how far the one is from the other."""
    def staleness(row):
        at = row.settings.get("staleness")
        return f"{at['real']:.2f}, {at['simulated']:.2f}" if at else ""

    lines = head("setting", "real, ms", "simulated, ms", "error", "staleness, real and simulated")
    for row in found:
        scatter = f" ± {50 * row.spread:.1f} %" if row.spread else ""
        lines.append(cells(row.case + mark(row), format_number(row.theirs), format_number(row.ours), f"{100 * row.settings['error']:+.1f} %" + scatter, staleness(row)))
    return lines


def systems(found, mark):
    """Seconds to the target by setting, a line a system."""
    order = list(dict.fromkeys(row.settings["system"] for row in found))
    settings = list(dict.fromkeys(row.settings["setting"] for row in found))

    def cell(system, setting):
        row = next((row for row in found if (row.settings["system"], row.settings["setting"]) == (system, setting)), None)
        if row is None:
            return ""
        error = f" ± {row.settings['seconds_error']:.1f}" if row.settings.get("seconds_error") else ""
        return (f"{row.ours:.1f}{error}" if row.ours else "never") + mark(row)

    return head("system", *settings) + [cells(f"`{system}`", *(cell(system, setting) for setting in settings)) for system in order]


def milliseconds(row):
    """How long, and how far from the closed form where there is one."""
    error = f" ({100 * row.settings['error']:+.1f} %{', **missed**' if row.met is False else ''})" if row.settings.get("error") is not None else ""
    return format_number(1e3 * row.ours) + error


def exchanges(found, mark):
    """Exchanges alone, by cluster: a line a system, with its codecs replayed or real."""
    places = {(row.settings["system"], row.settings["codecs"], row.settings["rate"], row.ranks): row for row in found}
    columns = sorted({(row.settings["rate"], row.ranks) for row in found})
    return head("system", "codecs", *(f"{ranks} hosts, {rate}, ms" for rate, ranks in columns)) + [
        cells(system, codecs, *(milliseconds(row) + mark(row) if row else "" for row in (places.get((system, codecs, *column)) for column in columns)))
        for system, codecs in dict.fromkeys((system, codecs) for system, codecs, *_ in places)]


def rivals(found, mark):
    """Simulated steps of systems by number of ranks, beside the first one's throughput, and bytes of a rank at the most of them."""
    places = {(row.settings["link"], row.settings["system"], row.ranks): row for row in found}
    columns = sorted({row.ranks for row in found})

    def line(link, system):
        mine = {ranks: places.get((link, system, ranks)) for ranks in columns}
        steps = [f"{format_number(row.settings['step_ms'])} ({row.ratio:.3g})" if row else "" for row in mine.values()]
        last = [row for row in mine.values() if row][-1]
        return cells(link, system + mark(last), *steps, f"{last.settings['bytes'] / 1e6:.3g} MB" if "bytes" in last.settings else "")

    return head("link", "system", *(f"P = {ranks}" for ranks in columns), f"bytes at {columns[-1]}") + [
        line(*one) for one in dict.fromkeys((link, system) for link, system, _ in places)]


def models(found, mark):
    """What a rank sends of models of different sizes."""
    return head("values", "ranks", "sent in a step", "messages") + [
        cells(f"{row.settings['values'] / 1e6:.1f} million{mark(row)}", str(row.ranks), f"{row.ours / 1e6:.3g} MB", f"{row.settings['messages_per_rank']:.0f}")
        for row in found]


def goals_not_reached(found, mark):
    """By benchmark, a line a goal: those that several rows meet together, and those of single rows."""
    return head("benchmark", "goal", "measured", "wanted") + [
        cells(f"[`{row.bench}`](benchmarks.md#{row.bench})", row.case.removeprefix(CLAIM) + (f" (against {row.peer})" if row.peer else "") + mark(row), measured_figure(row), row.goal.removeprefix("ours "))
        for row in found]


def measured_figure(row):
    """That its goal is about."""
    return format_number(row.wanted_figure()) + (f" {row.unit}" if row.unit and row.goal.startswith("ours ") else "")


COARSE = "Coarse beside its steps, "


def is_coarse(row):
    return row.case.startswith(COARSE)


def coarse(found, mark):
    """How far off each row of the table of collectives is at worst, per cent."""
    columns = list(dict.fromkeys(name for row in found for name in row.settings["worst_per_cent"]))

    def line(row):
        situation, _, cluster = row.case.removeprefix(COARSE).partition(": ")
        worst = (row.settings["worst_per_cent"].get(column) for column in columns)
        return cells(situation + mark(row), cluster, str(row.ranks or ""), *("" if error is None else f"{error:.3g} %" for error in worst))

    return head("situation", "cluster", "ranks", *columns) + [line(row) for row in found]


DOCS, RESULTS, CODECS, SIMULATION, PARALLELISM = ("docs/benchmarks.md", "docs/results.md", "docs/compression.md", "docs/simulation.md",
                                                     "docs/parallelism.md")
LISTED = ("collectives", "transport", "step", "overhead", "torch", "images", "language", "hybrid", "parallelism", "servers", "slow-links", "time-to-accuracy")
BEST = "the better of each"


# With the recipes' sizes: what else they are asked beside their steps.
LEARNERS = ("gtopk", "gtopk-packed", "ok-topk", "ok-topk-packed", "dgc", "powersgd", "sketched-sgd", "gs-sgd", "gs-sgd-split")


def scaling(found, mark):
    """Times as fast as one node, by technique."""
    cases = dict.fromkeys((row.settings["network"], row.ranks) for row in found)
    techniques = list(dict.fromkeys(row.settings["technique"] for row in found))
    lines = head("network", "nodes", "published", *techniques, "wanted")
    for name, ranks in cases:
        rows_ = {row.settings["technique"]: row for row in found if (row.settings["network"], row.ranks) == (name, ranks)}
        with_goal = next((row for row in rows_.values() if row.goal), None)
        lines.append(cells(name + mark(next(iter(rows_.values()))), str(ranks), format_number(next((row.theirs for row in rows_.values() if row.theirs), None), "x"),
                           *(format_number(rows_[one].ours if one in rows_ else None, "x") for one in techniques), goal_of(with_goal) if with_goal else ""))
    return lines


def assumed(found, mark):
    """Times as fast as one node, by what is assumed otherwise."""
    cases = list(dict.fromkeys((row.settings["network"], row.ranks, row.settings["published"]) for row in found))
    lines = head("assumed", *(f"{name}, {ranks} nodes (published {published:g}x)" for name, ranks, published in cases))
    for words in dict.fromkeys(row.settings["assumption"] for row in found):
        rows_ = {(row.settings["network"], row.ranks): row for row in found if row.settings["assumption"] == words}
        lines.append(cells(words, *((format_number(rows_[name, ranks].ours, "x") + mark(rows_[name, ranks])) if (name, ranks) in rows_ else "-" for name, ranks, _ in cases)))
    return lines


def orders(found, mark):
    """Steps by what hides communication, beside the predicted ones, and how much of what can be hidden is."""
    hidden = {(row.ranks, row.settings["mode"], row.settings["by"]): row for row in found if "by" in row.settings}

    def share(row, by):
        one = hidden.get((row.ranks, row.settings["mode"], by))
        return percent(one.of_bound) + (" **missed**" if one.met is False else "") if one else ""

    lines = head("hosts", "order", "measured, ms", "predicted, ms", "error", "closed form, ms", "hidden, by the step", "hidden, by the trace")
    for row in found:
        if "by" in row.settings:
            continue
        scatter = f" ± {50 * row.spread:.1f} %" if row.spread else ""
        lines.append(cells(str(row.ranks), row.settings["mode"] + mark(row), format_number(row.ours) + scatter, format_number(row.theirs),
                           f"{100 * row.settings['error']:+.1f} %{' **missed**' if row.met is False else ''}", format_number(row.settings["closed_form_ms"]),
                           share(row, "by the step"), share(row, "by the trace")))
    return lines


def steps_by_compute(found, mark):
    """Steps with more and more compute, by model, side and peer: milliseconds, and how many times as soon as the peer, with what was predicted of it."""
    places = {}
    for row in found:
        model, _, side = row.case.split(", ", 2)
        places.setdefault((model, side, row.peer), {})[row.settings["compute_ms"]] = row
    columns = sorted({row.settings["compute_ms"] for row in found})

    def cell(row):
        predicted = row.settings.get("predicted")
        return f"{format_number(row.ours)}, {format_number(row.ratio, 'x')}" + (f" ({format_number(predicted, 'x')})" if predicted else "") + mark(row)

    return head("model", "side", "peer", *(f"{ms} ms of compute" for ms in columns)) + [
        cells(*of, *(cell(line[ms]) if ms in line else "" for ms in columns)) for of, line in places.items()]


def strong_scaling(found, mark):
    """Steps of a fixed global batch by number of hosts and technique, beside the simulated ones and what the balance equations allow."""
    lines = head("network", "hosts", "technique", "measured, ms", "simulated, ms", "error", "times as fast", "efficiency", "allowed", "sent in a step")
    for row in found:
        at = row.settings
        scatter = f" ± {50 * row.spread:.1f} %" if row.spread else ""
        groups = f", {row.ranks // at['members']} x {at['members']}" if at["technique"] == "hybrid" else ""
        lines.append(cells(at["network_trained"], str(row.ranks), at["technique"] + groups + mark(row), format_number(row.ours) + scatter, format_number(row.theirs),
                           f"{100 * at['error']:+.1f} %{' **missed**' if row.met is False else ''}", format_number(at["times_as_fast"], "x"), percent(at["efficiency"]),
                           percent(at["allowed_efficiency"]), f"{at['bytes_sent_per_step'][0] / 1e6:.3g} MB"))
    return lines


def by_sizes(sizes):
    return lambda row: row.settings.get("sizes") == sizes


def highlights(row):
    """What the page of results shows of a benchmark."""
    return row.case.endswith(BEST) or (row.bench in ("slow-links", "time-to-accuracy") and (row.ratio or 0) > 1)


TABLES = (
    *(Table(bench, DOCS, bench, listing) for bench in LISTED),
    *(Table(f"{bench} goals", DOCS, bench, claims, is_claim) for bench in ("collectives", "transport", "tensor-rpc", "step", "torch", "images", "hybrid", "codecs", "time-to-accuracy", "servers",
                                                                        "slow-links", "real-vs-virtual", "gs-sgd", "overlap", "scaling")),
    Table("tensor-rpc", DOCS, "tensor-rpc", steps_by_compute, lambda row: "predicted" in row.settings),
    Table("tensor-rpc simulated", DOCS, "tensor-rpc", steps_by_compute, lambda row: row.transport == "simulated"),
    Table("tensor-rpc others", DOCS, "tensor-rpc", listing, lambda row: not is_claim(row) and row.transport != "simulated" and "predicted" not in row.settings),
    Table("overlap", DOCS, "overlap", orders),
    Table("scaling", DOCS, "scaling", strong_scaling),
    Table("simulator", DOCS, "simulator", listing, lambda row: not is_claim(row) and not is_coarse(row)),
    Table("pcl-dnn", PARALLELISM, "pcl-dnn", scaling, lambda row: "technique" in row.settings),
    Table("pcl-dnn assumptions", PARALLELISM, "pcl-dnn", assumed, lambda row: "assumption" in row.settings),
    Table("coarse", SIMULATION, "simulator", coarse, is_coarse),
    Table("gs-sgd", DOCS, "gs-sgd", exchanges, lambda row: row.transport == "tcp"),
    Table("rivals, equal shares", CODECS, "gs-sgd", rivals, by_sizes("1 % each")),
    Table("rivals, recipes", CODECS, "gs-sgd", rivals, by_sizes("recipes' sizes")),
    Table("rivals, learning", CODECS, "convergence", accuracies, lambda row: row.case in LEARNERS),
    Table("one sketch", CODECS, "gs-sgd", models, lambda row: "model" in row.settings),
    Table("simulation steps", SIMULATION, "real-vs-virtual", simulated, lambda row: not is_claim(row) and not row.settings["discipline"]),
    Table("simulation disciplines", SIMULATION, "real-vs-virtual", simulated, lambda row: not is_claim(row) and row.settings["discipline"]),
    Table("codecs", DOCS, "codecs", codecs),
    Table("accuracy", DOCS, "accuracy", accuracies),
    Table("convergence", DOCS, "convergence", accuracies),
    Table("slow-hosts", DOCS, "slow-hosts", systems),
    *(Table(f"front {bench}", RESULTS, bench, listing, highlights) for bench in ("step", "time-to-accuracy", "slow-links")),
    *(Table(f"front {bench}", RESULTS, bench, claims, is_claim) for bench in ("torch", "collectives", "transport")),
    Table("front slow-hosts", RESULTS, "slow-hosts", systems),
    Table("goals not reached", RESULTS, ALL, goals_not_reached, lambda row: row.met is False),
)


def measured(found):
    """When, where and of which commit."""
    runs = dict.fromkeys((run.get("date"), run.get("commit"), run.get("mode"), run.get("cores"), run.get("cpu"))
                         for run in (row.settings.get("run", {}) for row in found))
    words = [f"{date or 'at an unknown date'}, commit {commit or 'unknown'}, `--{mode}`, " + (f"{cores or '?'} cores of {cpu}" if cpu else "machine not noted")
             for date, commit, mode, cores, cpu in runs]
    return "Measured: " + "; ".join(words) + "."


def made(table, kept, ages):
    """The table's Markdown, without the lines around it."""
    found = [row for row in kept if table.picks(row)]
    if not found and table.bench == ALL:
        return "None."
    if not found:
        return f"No rows yet: `bench/run {table.bench} --full --record` on a machine that does nothing else."
    notes = [MEANINGS[age] for age in (ledger.OLDER, ledger.UNKNOWN) if any(ages.of(row) == age for row in found)]
    caption = [] if table.bench == ALL else [measured(found)]
    return "\n".join([*table.lines(found, lambda row: MARKS[ages.of(row)]), "", *caption, *(f"{note}." for note in notes)])


def without_marks(text):
    """Marks grow old by every commit; figures do not."""
    for mark in MARKS.values():
        text = text.replace(mark, "") if mark else text
    return "\n".join(line for line in text.splitlines() if not line.startswith(("†", "‡")))


def begin_of(table):
    return f"<!-- figures: {table.name} -->"


END = "<!-- end of figures -->"


def placed(text, table):
    """Where the table's text begins and ends in its file."""
    if text.count(begin_of(table)) != 1:
        raise ValueError(f"{table.file} has not one place for the table {table.name}: {begin_of(table)}")
    begin = text.index(begin_of(table)) + len(begin_of(table)) + 1
    return begin, text.index(END, begin)


def replaced(text, table, markdown):
    begin, end = placed(text, table)
    return text[:begin] + markdown + "\n" + text[end:]


def paths_of(benchmarks):
    """Benchmark -> what it measures, as its module says."""
    return {name: with_harness(importlib.import_module(module).PATHS, imports.files_of(module)) for name, (module, _) in benchmarks.items()}


HARNESS = "bench/harness"


def with_harness(paths, imported):
    """With the files that a benchmark imports of the harness in place of all of it."""
    return [one for path in paths for one in ([file for file in imported if file.startswith(path + "/")] if path == HARNESS else [path])]
