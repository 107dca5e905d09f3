"""Processes of a benchmark: they last as long as they are needed, and must; interrupts leave none behind, and no test cluster."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import context  # noqa: F401
from harness import cluster
from harness.group import background, run_group
from harness.side import Side, SideFailed, interrupts_wait

# It says in $LOG what it was told, and how it ended.
LAB = """#!/bin/sh
trap 'echo "$1 got a signal" >> "$LOG"; kill $!; exit 143' INT TERM HUP
echo "$1 begins" >> "$LOG"
sleep $(eval echo "\\$SECONDS_OF_$1") & wait $!
echo "$1 is done" >> "$LOG"
[ "$1" = up ] && echo '{"hosts": [{"address": "10.0.0.1"}]}' || true
"""


class Background(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def beside(self, program, **more):
        return background("beside", [[sys.executable, "-c", program]], [{}], self.folder, **more)

    def test_processes_end_with_the_block(self):
        with self.beside("import time; time.sleep(600)") as processes:
            self.assertIsNone(processes[0].poll())
        self.assertIsNotNone(processes[0].poll())

    def test_one_that_ends_before_is_told_of(self):
        with self.assertRaisesRegex(SideFailed, "(?s)ended with 3.*why"):
            with self.beside("import sys; print('why', file=sys.stderr); sys.exit(3)") as processes:
                processes[0].wait()


    def test_the_block_waits_until_they_have_begun(self):
        path = os.path.join(self.folder, "begun")
        with self.beside(f"import time; time.sleep(0.2); open({path!r}, 'w'); time.sleep(600)", begun=lambda: os.path.exists(path)):
            self.assertTrue(os.path.exists(path))

    def test_one_that_never_begins_is_told_of(self):
        for program, seconds, why in (("import sys; sys.exit(3)", 60, "ended with 3"), ("import time; time.sleep(600)", 0.2, "not under way")):
            with self.assertRaisesRegex(SideFailed, why):
                with self.beside(program, begun=lambda: False, timeout=seconds):
                    self.fail("it has not begun")

    def test_who_has_not_begun_ends_with_the_waiting(self):
        path = os.path.join(self.folder, "process")
        program = f"import os, time; open({path!r}, 'w').write(str(os.getpid())); time.sleep(600)"

        def interrupted():
            if os.path.exists(path) and os.path.getsize(path):
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.beside(program, begun=interrupted).__enter__()
        with open(path) as file:
            self.assertFalse(os.path.exists(f"/proc/{file.read()}"))


class Interrupts(unittest.TestCase):
    """Those of a terminal and of its user: SIGINT to this process."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.log = folder.name, os.path.join(folder.name, "log")

    def lab(self, up, down=0.0):
        """One that takes so many seconds stands in the place of tools/lab."""
        path = os.path.join(self.folder, "lab")
        with open(path, "w") as out:
            out.write(LAB)
        os.chmod(path, 0o755)
        for patch in (mock.patch.object(cluster, "LAB", path),
                      mock.patch.dict(os.environ, {"LOG": self.log, "SECONDS_OF_up": str(up), "SECONDS_OF_down": str(down)})):
            patch.start()
            self.addCleanup(patch.stop)

    def told(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as file:
            return file.read().splitlines()

    def interrupt_when(self, *lines):
        """Once for each, as soon as the lab has said it."""
        def watch():
            for line in lines:
                while line not in self.told():
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGINT)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        self.addCleanup(watcher.join, 10)

    def test_a_cluster_that_is_interrupted_while_it_comes_up_is_taken_down(self):
        self.lab(up=60)
        self.interrupt_when("up begins")
        with self.assertRaises(KeyboardInterrupt), cluster.Cluster(1, "1gbit"):
            self.fail("it did not come up")
        self.assertEqual(self.told(), ["up begins", "up got a signal", "down begins", "down is done"])

    def test_nothing_cuts_its_end_short(self):
        self.lab(up=60, down=0.5)
        self.interrupt_when("up begins", "down begins")
        with self.assertRaises(KeyboardInterrupt):
            cluster.Cluster(1, "1gbit")
        self.assertEqual(self.told()[-1], "down is done")

    def test_nor_that_of_one_that_stands(self):
        self.lab(up=0, down=0.5)
        self.interrupt_when("down begins")
        with self.assertRaises(KeyboardInterrupt):
            with cluster.Cluster(1, "1gbit") as one:
                self.assertEqual(one.addresses, ["10.0.0.1"])
        self.assertEqual(self.told()[-1], "down is done")

    def test_ranks_that_have_started_end_when_the_next_one_is_interrupted(self):
        started, popen = [], subprocess.Popen

        def start(*words, **more):
            started.append(popen(*words, **more))
            if len(started) == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return started[-1]

        commands = [["sleep", "2"]] * 3  # no rank 0 that understands `quit`: it is waited for
        with mock.patch.object(subprocess, "Popen", start):
            for run in (lambda: Side("a side", commands, self.folder), lambda: run_group("a group", commands, [{}] * 3, self.folder),
                        lambda: background("beside", commands, [{}] * 3, self.folder).__enter__()):
                started.clear()
                with self.assertRaises(KeyboardInterrupt):
                    run()
                self.assertNotIn(None, [process.poll() for process in started])
                self.assertGreaterEqual(len(started), 2)

    def test_an_interrupt_while_processes_get_time_to_end_leaves_nobody_behind(self):
        def stop_side():
            Side("a side", commands, self.folder).stop()

        def run_out_of_time():
            run_group("a group", commands, [{}], self.folder, timeout=0.1)

        started, popen, commands = [], subprocess.Popen, [["sleep", "600"]]
        with mock.patch.object(subprocess, "Popen", lambda *words, **more: started.append(popen(*words, **more)) or started[-1]):
            for run in (stop_side, run_out_of_time):
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
                with self.assertRaises(KeyboardInterrupt):
                    run()
        self.assertEqual([process.poll() for process in started], [-signal.SIGTERM] * 2)

    def test_a_rank_that_cannot_start_ends_those_before(self):
        started, popen = [], subprocess.Popen
        with mock.patch.object(subprocess, "Popen", lambda *words, **more: started.append(popen(*words, **more)) or started[-1]):
            for commands in ([["cat"], ["/no/such/program"]], [["/no/such/program"]]):
                with self.assertRaises(FileNotFoundError):
                    Side("a side", commands, self.folder)
        self.assertNotIn(None, [process.poll() for process in started])

    def test_what_waits_comes_once_afterwards_and_to_the_same_hands(self):
        before, passed = signal.getsignal(signal.SIGINT), False
        with self.assertRaises(KeyboardInterrupt), interrupts_wait():
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            passed = True
        self.assertTrue(passed)
        self.assertIs(signal.getsignal(signal.SIGINT), before)


if __name__ == "__main__":
    unittest.main()
