"""Parts of a benchmark: what is measured, kept and said of them, and where an interrupted one goes on."""

import contextlib
import io
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

from context import load_run
import collectives
import overlap
import step
import transport
from harness import rows
from harness.rows import Row, RowStore

run = load_run()
KIND = {"bench": "fake", "mode": "full", "commit": "0123456789", "only": ""}
CASES = ("dense, written", "dense, read", "sharded, written")


def row(case, **members):
    return Row("fake", case, ranks=2, peer="DDP", ours=1.0, verified=True, **members)


def measures_all(session):
    """Whatever is wanted, all is measured together."""
    if not all(session.rows.has(row(case)) for case in CASES):
        for case in CASES:
            session.rows.add(row(case))


class Fake(unittest.TestCase):
    """bench/run fake: a benchmark without programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def bench(self, *words, measure=measures_all, kept=None, beside=None):
        """(exit code, cases of the rows, what was said)."""
        fake = types.SimpleNamespace(PACKAGES=(), targets=lambda peers_only: [], run=measure, summary=lambda rows: [])
        said, out, finished = io.StringIO(), io.StringIO(), []
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.dict(sys.modules, {"fake": fake}))
            stack.enter_context(mock.patch.dict(run.BENCHMARKS, {**(beside or {}), "fake": ("fake", "nothing")}, clear=True))
            stack.enter_context(mock.patch.object(run.machine, "commit", lambda root: "0123456789"))
            stack.enter_context(mock.patch.object(run.machine, "others", lambda: 0.0))
            stack.enter_context(mock.patch.object(run.packages, "ensure"))
            stack.enter_context(mock.patch.object(run.signal, "signal"))
            stack.enter_context(mock.patch.object(rows, "write_json", lambda path, found: finished.extend(found)))
            stack.enter_context(mock.patch.object(run.ledger, "keep", lambda name, found, *more: (kept if kept is not None else []).extend(found)))
            stack.enter_context(mock.patch.object(sys, "argv", ["bench/run", *words, "--json", os.path.join(self.folder, "rows"), "--build-dir", self.folder]))
            stack.enter_context(contextlib.redirect_stderr(said))
            stack.enter_context(contextlib.redirect_stdout(out))
            code = run.main()
        return code, [one.case for one in finished], said.getvalue() + out.getvalue()

    def states(self):
        return [name for name in os.listdir(self.folder) if name.endswith(".state")]

    def test_what_matches_nothing_is_wrong_usage_that_names_what_there_is(self):
        for name in ("fake", "all"):
            code, cases, said = self.bench(name, "--full", "--no-build", "--only", "shraded")
            self.assertEqual((code, cases), (run.EXIT_USAGE, []))
            self.assertIn("nothing matches --only shraded; there are: dense, written; dense, read; sharded, written", said)
        self.assertEqual(self.states(), [])

    def test_runs_that_can_not_be_compared_end_with_a_sentence(self):
        for error in (run.training.WrongModel, run.training.WrongThreads, run.slices.TooShort):
            code, _, said = self.bench("fake", "--no-build", measure=mock.Mock(side_effect=error("other work")))
            self.assertEqual(code, run.EXIT_FAILED)
            self.assertIn("bench/run: other work", said)

    def test_recipes_that_match_nothing_are_named_too(self):
        code, _, said = self.bench("fake", "--no-build", "--only", "topk", measure=lambda session: session.chosen(["a/asgd.yaml", "a/easgd.yaml"]))
        self.assertEqual(code, run.EXIT_USAGE)
        self.assertIn("there are: asgd; easgd", said)

    def test_of_all_benchmarks_those_with_such_rows_are_run(self):
        bare = types.SimpleNamespace(PACKAGES=(), run=lambda session: session.rows.has(row("other")), summary=lambda rows: [])
        with mock.patch.dict(sys.modules, {"bare": bare}):
            code, cases, said = self.bench("all", "--no-build", "--only", "sharded", beside={"bare": ("bare", "nothing")})
        self.assertEqual((code, cases), (0, ["sharded, written"]))
        self.assertIn("bare: nothing matches --only sharded; there are: other", said)

    def test_what_this_machine_cannot_measure_is_no_wrong_usage(self):
        self.assertEqual(self.bench("fake", "--no-build", "--only", "lab", measure=lambda session: session.skip("the test cluster", "no root"))[0], 0)

    def test_only_the_rows_of_the_part_are_said_and_kept(self):
        kept = []
        with mock.patch.object(run.build, "build"), mock.patch.object(run.packages, "ensure_build_tools"):
            code, cases, said = self.bench("fake", "--full", "--record", "--only", "sharded", kept=kept)
        self.assertEqual((code, cases), (0, ["sharded, written"]))
        self.assertEqual([one.case for one in kept], ["sharded, written"])
        self.assertNotIn("dense", said)

    def test_a_part_leaves_the_rows_of_an_interrupted_whole(self):
        def interrupted(session):
            session.rows.add(row(CASES[0]))
            raise KeyboardInterrupt

        left = []
        self.assertEqual(self.bench("fake", "--full", "--no-build", measure=interrupted)[0], 130)
        for words in (("--only", "sharded"), ("--peers-only",), ("--peers-only", "--only", "sharded")):
            self.assertEqual(self.bench("fake", "--full", "--no-build", *words)[0], 0)
        self.bench("fake", "--full", "--no-build", measure=lambda session: left.extend(case for case in CASES if not session.rows.has(row(case))))
        self.assertEqual(left, list(CASES[1:]))
        self.assertEqual(self.states(), [])


class Stores(unittest.TestCase):
    def test_what_stands_beside_is_known_but_no_result(self):
        with tempfile.TemporaryDirectory() as folder:
            state = os.path.join(folder, "state")
            for _ in range(2):  # the second goes on
                store = RowStore(KIND, state, only=("sharded",))
                if not store.find(row("dense")):
                    store.add(row("dense"))
                    store.add(row("sharded"))
                    store.add(row(rows.CLAIM + "all"))
                    self.assertEqual([one.case for one in store.results()], ["sharded", rows.CLAIM + "all"])
            self.assertEqual([one.case for one in store.results()], ["sharded"])
            self.assertIsNotNone(store.find(row("dense")))


class Gates(unittest.TestCase):
    """Whatever rows a benchmark adds, each can be asked for."""

    def session(self, *only, peers_only=False):
        return run.Session("smoke", "", "", RowStore(KIND, only=only), peers_only, only)

    def measured(self, *only, peers_only=False):
        """Names of what transport measures, sides apart."""
        names = ("count_copies", "measure_size", "measure_dynamic", "measure_latency", "measure_unconsumed", "measure_long_run")
        seen, session = [], self.session(*only, peers_only=peers_only)
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(transport, "start_sides"))
            for name in names:
                stack.enter_context(mock.patch.object(transport, name, lambda *_, name=name: seen.append(name) or {}))
            between = stack.enter_context(mock.patch.object(transport.two_hosts, "measure_between"))
            transport.run(session)
        return seen, bool(between.call_args.args[2])

    def test_transport(self):
        tensors = ["count_copies", "measure_size", "measure_size"]
        for only, seen, lab in (("latency", ["measure_latency"], False), ("not consumed", ["measure_unconsumed"], False),
                                ("million", ["measure_long_run"], False), ("dynamic", ["measure_dynamic"], False),
                                ("copies", ["count_copies"], False), ("copied, in place", tensors, False),
                                ("1gbit, written", [], True), ("1gbit, copied out", [], True), ("nobody", [], False)):
            with self.subTest(only):
                self.assertEqual(self.measured(only), (seen, lab))
        self.assertEqual(self.measured(), ([*tensors, "measure_dynamic", "measure_latency", "measure_unconsumed", "measure_long_run"], True))
        self.assertEqual(self.measured("latency", peers_only=True), ([], False))
        self.assertEqual(self.measured(peers_only=True), (tensors, True))

    def test_step(self):
        for only, runs in (("exposed", True), ("contiguous", True), ("one host, own loop", True), ("plain libtorch", False), ("sharded state, channels_last", True)):
            with self.subTest(only), mock.patch.object(step, "Weights", side_effect=InterruptedError):
                with self.assertRaises(InterruptedError) if runs else contextlib.nullcontext():
                    step.run(self.session(only))

    def test_networks_of_collectives(self):
        cluster = types.SimpleNamespace(addresses=["a", "b"], rate="1gbit")
        for only, runs in (("bandwidth", True), ("processor time", True), ("long path", False)):
            with self.subTest(only), mock.patch.object(collectives, "network_sides", side_effect=InterruptedError):
                with self.assertRaises(InterruptedError) if runs else contextlib.nullcontext():
                    collectives.run_networks(self.session(only), cluster)

    def test_overlap(self):
        for only, runs in (("hidden", True), ("by the trace", True), ("priority", True), ("8 hosts", False)):
            with self.subTest(only), mock.patch.object(overlap, "train_alone", side_effect=InterruptedError), mock.patch.object(overlap, "Twin"), \
                    mock.patch.object(overlap.Lab, "open", lambda lab: contextlib.nullcontext()):
                with self.assertRaises(InterruptedError) if runs else contextlib.nullcontext():
                    overlap.run(self.session(only))


if __name__ == "__main__":
    unittest.main()
