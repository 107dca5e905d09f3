"""What happens to a run when a worker dies or stops."""

import json
import os
import signal
import time
import unittest

from taxon_run import HANGS, TaxonTest


class Faults(TaxonTest):
    def begin(self, workers=3, *more, out="run"):
        process = self.start("train", self.recipe, "--workers", workers, "--out", out, "--set", "length.epochs=4000",
                             "--set", "checkpoint.every_steps=0", *more)
        return process

    def kill_and_check(self, process, ranks, victim):
        os.kill(ranks[victim], signal.SIGKILL)
        # 75: the loss was seen. Who only found out by waiting, minutes later, would end with 74.
        self.assertEqual(process.wait(HANGS), 75, self.log())
        self.assertEqual([pid for pid in ranks.values() if pid in self.processes()], [])
        self.assertIn(f"rank {victim}", self.log())

    def test_a_killed_worker_ends_the_run_and_is_named(self):
        for victim in (0, 2):
            with self.subTest(victim=victim):
                out = f"run{victim}"
                process = self.begin(3, out=out)
                self.wait_until(lambda: self.steps_seen(out) >= 5, "training")
                self.kill_and_check(process, self.workers(out), victim)
                self.assertFalse((self.folder / out / "summary.json").exists())

    def test_a_worker_killed_during_the_start(self):
        for delay in (0.05, 0.3, 0.8):
            with self.subTest(delay=delay):
                process = self.begin(3, "--overwrite")
                self.wait_until(lambda: len(self.workers("run")) == 3, "the workers' start")
                time.sleep(delay)
                ranks = self.workers("run")
                os.kill(ranks[1], signal.SIGKILL)
                self.assertNotEqual(process.wait(HANGS), 0)
                self.assertIn("rank 1", self.log())

    def test_a_killed_worker_is_named_over_grpc(self):
        self.need_grpc()
        for kind in ("grpc", "grpc-unary"):
            with self.subTest(transport=kind):
                process = self.begin(3, "--set", f"transport.kind={kind}", out=kind)
                self.wait_until(lambda: self.steps_seen(kind) >= 5, "training")
                self.kill_and_check(process, self.workers(kind), 1)

    ASYNCHRONOUS = ("--set", "exchange.levels=[{topology: servers, staleness: -1, apply: 1}]", "--set", "mesh.servers=1",
                    "--set", "optimiser.rule=sgd")

    def test_a_killed_asynchronous_worker_leaves_the_others_training(self):
        for kind in ("auto", "tcp"):
            with self.subTest(transport=kind):
                out = f"run-{kind}"
                process = self.begin(5, *self.ASYNCHRONOUS, "--set", "length.epochs=60", "--set", f"transport.kind={kind}",
                                     "--set", "evaluation.every_epochs=0", out=out)
                self.wait_until(lambda: self.steps_seen(out) >= 20, "training")
                victim = self.workers(out)[2]
                os.kill(victim, signal.SIGKILL)
                self.assertEqual(process.wait(HANGS), 3, self.log())
                self.assertEqual(self.log().count("rank 2 was lost: "), 1, self.log())
                self.assertIn("the others can do without it", self.log())
                last = self.log().strip().splitlines()[-1]
                self.assertRegex(last, "rank 2 on the way; the other workers went on")
                summary = json.loads((self.folder / out / "summary.json").read_text())
                self.assertEqual(summary["lost_ranks"], [2])
                self.assertGreaterEqual(summary["samples"], 60 * 2000)

    def test_a_killed_server_ends_the_asynchronous_run_and_is_named(self):
        process = self.begin(4, *self.ASYNCHRONOUS)
        self.wait_until(lambda: self.steps_seen("run") >= 5, "training")
        self.kill_and_check(process, self.workers("run"), 3)

    def test_the_killed_launcher_takes_its_workers_along(self):
        process = self.begin(2)
        self.wait_until(lambda: self.steps_seen("run") >= 5, "training")
        process.kill()
        process.wait()
        self.wait_until(lambda: not self.processes(), "the workers' end")

    def test_a_stopped_worker_is_named_and_the_run_goes_on_when_it_returns(self):
        process = self.begin(3)
        self.wait_until(lambda: self.steps_seen("run") >= 5, "training")
        ranks = self.workers("run")
        os.kill(ranks[1], signal.SIGSTOP)
        try:
            self.wait_until(lambda: "rank 1" in self.log(), "the report of the silent rank")
            self.assertIsNone(process.poll())
            before = self.steps_seen("run")
        finally:
            os.kill(ranks[1], signal.SIGCONT)
        self.wait_until(lambda: self.steps_seen("run") > before + 20, "going on")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(HANGS), 143, self.log())

    def test_a_worker_silent_past_the_deadline_ends_the_run(self):
        process = self.begin(2, "--set", "control.silence_seconds=1", "--set", "control.hang_seconds=2", "--set",
                             f"control.deadline_seconds={self.patience(4)}")
        self.wait_until(lambda: self.steps_seen("run") >= 5, "training")
        ranks = self.workers("run")
        os.kill(ranks[1], signal.SIGSTOP)
        self.assertEqual(process.wait(HANGS), 74, self.log())
        self.assertIn("rank 1", self.log())

    def test_a_second_signal_ends_at_once(self):
        process = self.begin(2)
        self.wait_until(lambda: self.steps_seen("run") >= 5, "training")
        ranks = self.workers("run")
        os.kill(ranks[1], signal.SIGSTOP)  # so that the orderly end can't succeed
        process.send_signal(signal.SIGINT)
        self.wait_until(lambda: "once more ends them now" in self.log(), "the first signal's arrival")
        time.sleep(0.5)  # two that come nearly at once are one: the terminal's and the launcher's
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(HANGS), 143)
        self.wait_until(lambda: not self.processes(), "the workers' end")


if __name__ == "__main__":
    unittest.main()
