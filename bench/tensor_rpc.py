"""Steps with a parameter server, one worker and one server on this host, compute replayed: Taxon's tensor channels against gRPC and an RPC
over the same fabric. And simulated: 8 servers with 100 Gbit/s."""
import contextlib
import functools
import json
import os
import statistics
import subprocess
import tempfile

import transport
from harness import machine, pairs, two_hosts
from harness.rows import Row, claim
from harness.side import Side, SideFailed

PACKAGES = transport.PACKAGES
PATHS = ("src/base", "src/task", "src/net", "src/control", "src/tensor", "src/comm", "src/launch", "src/sim", "bench/tensor_rpc.py", "bench/transport.py",
         "bench/ours/steps.cc", "bench/ours/tensor_world.cc", "bench/ours/rank.cc", "bench/ours/rank.h", "bench/side", "bench/copies", "bench/bounds", "bench/peers", "bench/harness", "tools/lab")
# As in the evaluation of RPC Considered Harmful (arXiv 1805.08430); bench/side/variables.cc has the variables.
PARAMETERS = {"AlexNet": 46_247_882, "VGGNet-16": 134_301_514, "Inception-v3": 24_353_332, "LSTM": 9_417_704, "GRU": 7_319_528,
              "FCN-5": 53_600_266}
COMPUTE_MS = {"smoke": (0,), "quick": (0, 10, 100), "full": (0, 1, 3, 10, 30, 100)}
WAYS = {"put": "written", "in_place": "in place"}
GRPC = tuple(f"{form}_{path}" for form in ("calls", "many", "stream") for path in ("tcp", "unix"))
COUNTED = "GRU"  # whose copies are counted
WANTED = 0.15  # how far the predicted speed-up may be off
WORLD_MS = (0, 10, 100)
WORLD_HOSTS = 8
THREADS = {False: "a thread each", True: "one thread"}  # that copy: of each connection, of each process
ZERO_COPY = "RDMA.zerocp"  # beside which the other simulated ways stand
WORLD = "bench_tensor_world"
PROGRAMS = ["bench_grpc_steps", "bench_fabric_steps", "bench_count_copies", "bench_tcp_stream", WORLD]
TAXON = "bench_taxon_steps"


def targets(peers_only):
    return PROGRAMS if peers_only else [*PROGRAMS, TAXON]


# ---- sides ---------------------------------------------------------------------------------------------------------


def start_sides(session, stack, counting=False):
    """name -> Side; a way of Taxon's is a side, so that its channels stay open while others take turns."""
    port = machine.free_ports(10)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-grpc-"))
    environment = transport.SECRET | ({"LD_PRELOAD": session.program("bench_count_copies.so")} if counting else {})

    def pair(name, program, first, extra, memory=None):
        commands = [[session.program(program), "--rank", str(r), "--ranks", "2", "--host", "127.0.0.1", "--port", str(first), *extra]
                    for r in range(2)]
        label = f"steps {name} counted" if counting else f"steps {name}"
        return stack.enter_context(Side(label, commands, session.log_folder, [environment | (memory or {})] * 2))

    sides = {"gRPC": pair("gRPC", "bench_grpc_steps", port, ["--grpc-port", str(port + 1), "--socket", os.path.join(folder, "socket")],
                          transport.GRPC_MEMORY),
             "RPC": pair("RPC", "bench_fabric_steps", port + 2, ["--job-port", str(port + 3)])}
    if not session.peers_only:
        for i, way in enumerate(WAYS):
            sides[way] = pair(way, TAXON, port + 4 + 2 * i, ["--job-port", str(port + 5 + 2 * i)])
    return sides


class Case:
    """One model: asks the sides in turn. `form` is gRPC's."""

    def __init__(self, sides, model):
        self.sides, self.model, self.form = sides, model, None
        self.details, self.sums, self.right = {}, {}, {}

    def way(self, side):
        return {"gRPC": self.form, "RPC": "ring"}.get(side, side)

    def ask(self, side, compute_ms, steps):
        """Median milliseconds of a step."""
        answer = self.sides[side].ask(f"run steps {4 * PARAMETERS[self.model]} 1 {steps} {self.way(side)}/{self.model}/{1000 * compute_ms}",
                                      timeout=300)
        self.details[side] = answer.get("detail")
        self.right[side] = self.right.get(side, True) and answer["verified"]
        moved = 2 * 4 * PARAMETERS[self.model] * steps
        self.sums[side] = [figure / moved for figure in answer.get("sums", [])]
        return 1e3 * statistics.median(answer["seconds"])

    def choose_form(self):
        """gRPC's best form for this model: milliseconds of a step in each."""
        found = {}
        for self.form in GRPC:
            found[self.form] = self.ask("gRPC", 0, 1)
        self.form = min(found, key=found.get)
        return {name: round(value, 3) for name, value in found.items()}


# ---- measuring -----------------------------------------------------------------------------------------------------


def row_of(model, way, compute_ms, peer):
    return Row("tensor-rpc", f"{model}, {compute_ms} ms, {WAYS.get(way, 'peers alone')}", transport="shared memory", ranks=2,
               bytes=4 * PARAMETERS[model], peer=peer)


def steps_of(side, model, compute_ms, quick):
    """About a third of a second, at least three: gRPC's scatter."""
    rate = 4e8 if side == "gRPC" else 2e9
    guess = compute_ms / 1e3 + 8 * PARAMETERS[model] / rate
    return max(3, min(50, int((0.3 if quick else 1) / guess)))


def measure_model(session, sides, model):
    times = COMPUTE_MS[session.mode]
    ways = [way for way in WAYS if way in sides] or [None]
    if all(session.rows.has(row_of(model, way, ms, peer)) for way in ways for ms in times for peer in ("gRPC", "RPC, same fabric")):
        return
    case = Case(sides, model)
    forms = case.choose_form()
    alone = {}  # side -> what communication takes: a step without compute
    for ms in times:
        turns = {side: lambda side=side, ms=ms: case.ask(side, ms, steps_of(side, model, ms, session.quick())) for side in sides}
        figures = pairs.take_turns(turns, {"smoke": 1, "quick": 3, "full": 5}[session.mode])
        if ms == 0:
            alone = {side: statistics.median(values) for side, values in figures.items()}
        for way in ways:
            for peer, side in (("gRPC", "gRPC"), ("RPC, same fabric", "RPC")):
                row = row_of(model, way, ms, peer)
                row.unit, row.theirs = "ms", statistics.median(figures[side])
                row.verified = case.right[side]
                row.settings = {"compute_ms": ms, "peer_variant": case.way(side), "path": case.details.get(way),
                                "grpc_all": forms if side == "gRPC" and ms == 0 else None}
                if way:
                    row.ours = statistics.median(figures[way])
                    row.ratio, row.spread = pairs.ratio(False, figures[way], figures[side])
                    row.verified = row.verified and case.right[way]
                    row.settings |= prediction(ms, alone[way], alone[side], row.ratio)
                if not session.rows.has(row):
                    session.rows.add(row)


def prediction(ms, ours, theirs, ratio):
    """Of the speed-up at some compute from both sides' communication without any."""
    predicted = (ms + theirs) / (ms + ours)
    return {"predicted": round(predicted, 4), "error": round(predicted / ratio - 1, 4)}


def count_copies(session):
    """Bytes copied over bytes moved, in user space and by the kernel, counted by instrumentation."""
    rows = {side: Row("tensor-rpc", f"copies, {WAYS.get(side, side)}", transport="shared memory", ranks=2, bytes=4 * PARAMETERS[COUNTED])
            for side in ("gRPC", "RPC", *WAYS)}
    if all(session.rows.has(row) for row in rows.values()):
        return
    with contextlib.ExitStack() as stack:
        sides = start_sides(session, stack, counting=True)
        case = Case(sides, COUNTED)
        case.choose_form()
        for side in sides:
            case.ask(side, 0, 3)
            user, kernel = case.sums[side]
            row = rows[side]
            row.unit, row.verified = "copies", case.right[side]
            row.settings = {"user": round(user, 2), "kernel": round(kernel, 2)}
            if side in WAYS:
                row.ours = user + kernel
            else:
                row.theirs = user + kernel
            if not session.rows.has(row):
                session.rows.add(row)


# ---- between hosts -------------------------------------------------------------------------------------------------

LAB_RATE, LAB_PORT = "1gbit", 29400
LAB_MODELS = {"smoke": ("GRU",), "quick": ("GRU", "LSTM"), "full": ("GRU", "LSTM", "Inception-v3")}
LAB_GRPC = ("many_tcp", "stream_tcp")


def lab_row(model, peer):
    return Row("tensor-rpc", f"{model}, 2 hosts at {LAB_RATE}", transport="tcp", ranks=2, bytes=4 * PARAMETERS[model], unit="ms", peer=peer)


def lab_sides(session, stack, cluster):
    def pair(name, program, port, extra, memory=None):
        return two_hosts.pair(session, stack, cluster, f"steps {name}", program, port, extra, transport.SECRET | (memory or {}))

    sides = {"gRPC": pair("gRPC", "bench_grpc_steps", LAB_PORT, ["--grpc-host", cluster.addresses[1], "--grpc-port", str(LAB_PORT + 1)],
                          transport.GRPC_MEMORY),
             "RPC": pair("RPC", "bench_fabric_steps", LAB_PORT + 2, ["--job-port", str(LAB_PORT + 3)])}
    if not session.peers_only:
        sides["put"] = pair("put", TAXON, LAB_PORT + 4, ["--job-port", str(LAB_PORT + 5)])
    return sides


def measure_lab_model(session, sides, model, bandwidth):
    case = Case(sides, model)
    steps, rounds = {"smoke": (1, 1), "quick": (3, 3), "full": (5, 5)}[session.mode]

    def milliseconds(side, form=None):
        case.form = form
        return case.ask(side, 0, steps)

    grpc = {form: functools.partial(milliseconds, "gRPC", form) for form in LAB_GRPC}
    figures = pairs.take_turns(grpc | {side: functools.partial(milliseconds, side) for side in sides if side != "gRPC"}, rounds)
    best = min(LAB_GRPC, key=lambda form: statistics.median(figures[form]))
    for peer, key in (("gRPC", best), ("RPC, same fabric", "RPC")):
        row = lab_row(model, peer)
        row.theirs = statistics.median(figures[key])
        # Gradients one way, then variables the other; a link carries both at a time.
        row.bound = 1e3 * row.bytes / bandwidth
        row.verified = all(case.right.values())
        row.settings = {"network": "emulated", "rate": LAB_RATE, "compute_ms": 0, "peer_variant": key, "rounds": rounds}
        if "put" in figures:
            row.ours = statistics.median(figures["put"])
            row.ratio, row.spread = pairs.ratio(False, figures["put"], figures[key])
            row.of_bound = row.bound / row.ours
        if not session.rows.has(row):
            session.rows.add(row)


def run_lab(session):
    models = [model for model in LAB_MODELS[session.mode] if not session.rows.has(lab_row(model, "RPC, same fabric"))]
    two_hosts.measure_between(session, LAB_RATE, models, lab_sides, measure_lab_model)


# ---- simulated -----------------------------------------------------------------------------------------------------


def simulate(session, model, ms):
    """Every way's step in the virtual world (bench/ours/tensor_world.cc)."""
    done = subprocess.run([session.program(WORLD), model, str(1000 * ms)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SideFailed(f"{WORLD} {model} failed: {done.stderr.strip()}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    rows = []
    for one_thread, words in THREADS.items():
        steps = {line["way"]: line for line in lines if line["one_thread"] == one_thread}
        ours, slower = steps[ZERO_COPY]["seconds"], None
        for way, line in steps.items():  # from the slowest on
            row = Row("tensor-rpc", f"{model}, {ms} ms, {words}", transport="simulated", ranks=2 * WORLD_HOSTS, bytes=4 * PARAMETERS[model],
                      peer=way)
            row.unit, row.ours, row.theirs, row.ratio = "ms", 1e3 * ours, 1e3 * line["seconds"], line["seconds"] / ours
            row.bound, row.of_bound = 1e3 * line["bound"], line["bound"] / ours
            row.verified = line["seconds"] >= line["bound"] and (slower is None or line["seconds"] <= slower)
            row.settings = {"compute_ms": ms, "network": "simulated", "hosts": WORLD_HOSTS}
            slower = line["seconds"]
            rows.append(row)
    return rows


def run_simulated(session):
    for model in PARAMETERS:
        for ms in WORLD_MS[:1] if session.smoke() else WORLD_MS:
            if not any(session.rows.wants(f"{model}, {ms} ms, {words}") for words in THREADS.values()):
                continue
            for row in simulate(session, model, ms):
                if not session.rows.has(row):
                    session.rows.add(row)


def run(session):
    run_simulated(session)
    count_copies(session)
    with contextlib.ExitStack() as stack:
        sides = start_sides(session, stack)
        for model in (COUNTED,) if session.smoke() else PARAMETERS:
            measure_model(session, sides, model)
    run_lab(session)


def summary(rows):
    """Speed-up against compute, and how far (T + C_theirs)/(T + C_ours) is from it."""
    lines = []
    for words in THREADS.values():
        for model in PARAMETERS:
            for ms in WORLD_MS:
                cells = [f"{row.peer} {row.theirs:.4g} ms ({row.ratio:.2f}x)" for row in rows if row.case == f"{model}, {ms} ms, {words}"]
                if cells:
                    lines.append(f"simulated, {words}, {model}, {ms} ms: " + ", ".join(cells))
    measured = [row for row in rows if row.ratio is not None and row.transport == "shared memory"]
    for peer in ("gRPC", "RPC, same fabric"):
        for words in WAYS.values():
            for model in PARAMETERS:
                cells = [(row.settings["compute_ms"], row.ratio, row.settings["predicted"]) for row in measured
                         if row.peer == peer and row.case.startswith(f"{model},") and row.case.endswith(f", {words}")]
                if cells:
                    lines.append(f"{model:13} {words:9} over {peer:17}" + "".join(
                        f"  {ms:3} ms: {ratio:6.2f}x (predicted {predicted:6.2f}x)" for ms, ratio, predicted in cells))
    return lines


def claims(rows):
    errors = [abs(row.settings["error"]) for row in rows if row.ratio is not None and row.transport == "shared memory" and row.settings.get("compute_ms", 0) > 0]
    return [claim("tensor-rpc", "speed-ups predicted from compute and communication: the worst off, as a share", errors, max, at_most=WANTED)]
