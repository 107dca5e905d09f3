"""How fast codecs are on one core, beside the time to stream their bytes, and beside torch.topk and a Count-Sketch in torch."""
import itertools
import os
import statistics

import collectives
from harness import pairs
from harness.build import ROOT
from harness.rows import Row, claim
from harness.side import Side

PACKAGES = collectives.PACKAGES + ("python3-torch",)
PATHS = ("src/base", "src/codec", "bench/codec_speed.py", "bench/ours/codecs.cc", "bench/peers/codecs.py", "bench/harness")
PROGRAM = "bench_codecs"
LARGE, SMALL, DENSITY = 25_000_000, 2**20, 0.001
COLUMNS = 0.02  # of a sketch's row, per value
# (codec, operation, count) -> (the peer's request, its name, how many times faster Taxon should be)
PEERS = {
    ("top_k", "encode", LARGE): (f"topk encode {LARGE} {DENSITY}", "torch.topk", 30),
    ("count_sketch", "encode", SMALL): (f"sketch encode {SMALL} {int(COLUMNS * SMALL)}", "csvec in torch", 5),
    ("count_sketch", "decode", SMALL): (f"sketch decode {SMALL} {int(COLUMNS * SMALL)}", "csvec in torch", 5),
}
# Codecs of a pass over the values, and how many times as long as the copy of their bytes they may take.
STREAMING, MOST_STREAMS = ("bf16", "fp16", "int8", "int4", "sign"), 1.5
# A selection that may take so many times as long as reading the values twice.
SELECTION, MOST_READS = ("top_k", "encode", LARGE), 3


def case(codec, operation, count):
    return f"{codec} {operation}, {count:,} values"


def targets(peers_only):
    return [] if peers_only else [PROGRAM]


def bandwidth(ours, operation, count):
    """Bytes per second that one core reads, or copies; the time to copy as many bytes as a codec must stream is its bound."""
    answer = ours.ask(f"memory {operation} {count} 1 9")
    return answer["bytes"] / statistics.median(answer["seconds"])


def run_case(session, sides, codec, operation, count):
    request, peer, least = PEERS.get((codec, operation, count), (None, None, None))
    row = Row("codecs", case(codec, operation, count), "memory", 1, 4 * count, unit="ms", peer=peer)
    if session.rows.has(row):
        return
    rounds = {"smoke": 1, "quick": 5, "full": 21}[session.mode]
    turns = {"bound": lambda: bandwidth(sides["Taxon"], "copy", count)}
    if (codec, operation, count) == SELECTION:
        turns["read"] = lambda: bandwidth(sides["Taxon"], "read", count)
    turns["Taxon"] = lambda: sides["Taxon"].ask(f"{codec} {operation} {count} {DENSITY} 3")
    if peer:
        turns["peer"] = lambda: sides["torch"].ask(f"{request} 1")
    runs = pairs.take_turns(turns, rounds)
    ours = [statistics.median(answer["seconds"]) for answer in runs["Taxon"]]
    first = runs["Taxon"][0]
    row.ours = statistics.median(ours) * 1e3
    row.bound = first["bytes"] / statistics.median(runs["bound"]) * 1e3
    row.of_bound = row.bound / row.ours
    row.verified = all(answer["verified"] for answer in runs["Taxon"])
    row.settings = {"density": DENSITY, "wire_bytes": first["wire"], "ratio": 4 * count / first["wire"], "path": first["path"],
                    "rounds": rounds}
    if "read" in turns:
        row.settings["over_two_reads"] = row.ours / (2 * 4 * count / statistics.median(runs["read"]) * 1e3)
    if peer:
        theirs = [statistics.median(answer["seconds"]) for answer in runs["peer"]]
        row.theirs = statistics.median(theirs) * 1e3
        row.ratio, row.spread = pairs.ratio(False, ours, theirs)
        row.verified = row.verified and all(answer["verified"] for answer in runs["peer"])
        row.want("ratio", at_least=least)
    session.rows.add(row)


def run(session):
    if session.peers_only:
        return
    with Side("Taxon", [[session.program(PROGRAM)]], session.log_folder) as ours, \
            Side("torch", [[os.path.join(ROOT, "bench", "peers", "codecs.py")]], session.log_folder) as torch:
        for count in (SMALL,) if session.smoke() else (SMALL, LARGE):
            for codec in ours.ask("names")["names"]:
                for operation in ("encode", "decode"):
                    run_case(session, {"Taxon": ours, "torch": torch}, codec, operation, count)


def claims(rows):
    by_case = {row.case: row for row in rows}

    def streams(codec, operation):
        row = by_case.get(case(codec, operation, LARGE))
        return row and row.of_bound and 1 / row.of_bound

    selection = case(*SELECTION)
    reads = [by_case[selection].settings.get("over_two_reads")] if selection in by_case else []
    return [claim("codecs", f"{selection}: over reading the values twice", reads, max, at_most=MOST_READS),
            claim("codecs", "codecs of one pass: the slowest over copying as many bytes", [streams(*one) for one in
                  itertools.product(STREAMING, ("encode", "decode"))], max, at_most=MOST_STREAMS)]


def summary(rows):
    return []
