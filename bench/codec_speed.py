"""How fast codecs are on one core, beside the time to stream their bytes, and beside torch.topk and a Count-Sketch in torch."""
import os
import statistics

import collectives
from harness import pairs
from harness.build import ROOT
from harness.rows import Row
from harness.side import Side

PACKAGES = collectives.PACKAGES + ("python3-torch",)
PROGRAM = "bench_codecs"
LARGE, SMALL, DENSITY = 25_000_000, 2**20, 0.001
COLUMNS = 0.02  # of a sketch's row, per value
CODECS = ("bf16", "fp16", "int8", "int4", "qsgd", "terngrad", "natural", "sign", "sign_vote", "one_bit", "two_bit", "threshold",
          "random_k", "top_k", "gtop_k", "count_sketch", "power_sgd")
# (codec, operation, count) -> (the peer's request, its name, how many times faster Taxon should be)
PEERS = {
    ("top_k", "encode", LARGE): (f"topk encode {LARGE} {DENSITY}", "torch.topk", 30),
    ("count_sketch", "encode", SMALL): (f"sketch encode {SMALL} {int(COLUMNS * SMALL)}", "csvec in torch", 5),
    ("count_sketch", "decode", SMALL): (f"sketch decode {SMALL} {int(COLUMNS * SMALL)}", "csvec in torch", 5),
}


def targets(peers_only):
    return [] if peers_only else [PROGRAM]


def bandwidth(ours, count):
    """Bytes per second that one core copies; the time to stream what a codec must is its bound."""
    answer = ours.ask(f"memory copy {count} 1 9")
    return answer["bytes"] / statistics.median(answer["seconds"])


def run_case(session, sides, codec, operation, count):
    request, peer, _ = PEERS.get((codec, operation, count), (None, None, None))
    row = Row("codecs", f"{codec} {operation}, {count:,} values", "memory", 1, 4 * count, unit="ms", peer=peer)
    if session.rows.has(row):
        return
    rounds = 5 if session.quick() else 21
    turns = {"bound": lambda: bandwidth(sides["Taxon"], count)}
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
    if peer:
        theirs = [statistics.median(answer["seconds"]) for answer in runs["peer"]]
        row.theirs = statistics.median(theirs) * 1e3
        row.ratio, row.spread = pairs.ratio(False, ours, theirs)
        row.verified = row.verified and all(answer["verified"] for answer in runs["peer"])
    session.rows.add(row)


def run(session):
    if session.peers_only:
        return
    with Side("Taxon", [[session.program(PROGRAM)]], session.log_folder) as ours, \
            Side("torch", [[os.path.join(ROOT, "bench", "peers", "codecs.py")]], session.log_folder) as torch:
        for codec in CODECS:
            for operation in ("encode", "decode"):
                for count in (SMALL, LARGE):
                    run_case(session, {"Taxon": ours, "torch": torch}, codec, operation, count)


def summary(rows):
    wanted = {f"{codec} {operation}, {count:,} values": least for (codec, operation, count), (_, _, least) in PEERS.items()}
    return [f"{row.case}: {row.ratio:.3g} times as fast as {row.peer} (at least {wanted[row.case]})"
            for row in rows if row.ratio and row.case in wanted]
