"""What ends a job before it has begun: deaths, signals, limits of the system."""

import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import unittest

from taxon_run import PROGRAM, TaxonTest, clean_environment

ASYNCHRONOUS = ("--set", "exchange.levels=[{topology: servers, staleness: -1, apply: 1}]", "--set", "mesh.servers=1",
                "--set", "optimiser.rule=sgd")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    mask = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), 16)
    return bool(mask >> (number - 1) & 1)


class StartupTest(TaxonTest):
    def rank(self, rank, world, port, *more):
        environment = clean_environment(RANK=rank, WORLD_SIZE=world, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        return self.start("train", self.recipe, "--out", "run", *more, environment=environment, log=self.folder / f"log{rank}")

    def log_of(self, rank):
        path = self.folder / f"log{rank}"
        return path.read_text() if path.exists() else ""


class Deaths(StartupTest):
    def test_a_rank_that_dies_while_others_are_awaited_ends_the_job_and_is_named(self):
        port = free_port()
        ranks = [self.rank(rank, 4, port) for rank in range(3)]
        self.wait_until(lambda: "rank 0 waits at" in self.log_of(0) and "for rank 3 of 4" in self.log_of(0), "gathering")
        ranks[2].kill()
        for rank in (0, 1):
            self.assertEqual(ranks[rank].wait(60), 75, self.log_of(rank))
            self.assertIn("rank 2 was lost before all 4 ranks were there", self.log_of(rank))

    def test_a_rank_zero_that_dies_then_does_too(self):
        port = free_port()
        ranks = [self.rank(rank, 3, port) for rank in range(2)]
        self.wait_until(lambda: "has reached rank 0" in self.log_of(1), "gathering")
        ranks[0].kill()
        self.assertEqual(ranks[1].wait(60), 75, self.log_of(1))
        self.assertIn("rank 0 was lost before all 3 ranks were there", self.log_of(1))

    def test_a_worker_that_could_be_spared_later_is_needed_to_start(self):
        # Until all have met nobody can do without it; they don't wait the five minutes of control.join_seconds.
        process = self.start("train", self.recipe, "--workers", 4, "--out", "run", *ASYNCHRONOUS)
        self.wait_until(lambda: 2 in self.workers("run"), "the start of rank 2")
        os.kill(self.workers("run")[2], signal.SIGKILL)
        self.assertEqual(process.wait(100), 75, self.log())
        self.assertIn("rank 2 ", self.log())
        self.assertIn("was killed by signal 9", self.log())


class Signals(StartupTest):
    def test_from_the_first_moment_on_a_signal_ends_the_process_with_a_line(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = subprocess.Popen([PROGRAM, "train", str(self.recipe), "--out", "run"], cwd=self.folder, env=clean_environment(),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.started.append(process)
            while process.poll() is None and not catches(process.pid, number):
                pass
            process.send_signal(number)
            said = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 143, said)
            self.assertIn("taxon: interrupted", said)

    def test_a_local_worker_has_it_too_and_nobody_waits_for_it(self):
        for number in (signal.SIGINT, signal.SIGUSR1):
            with self.subTest(number=number):
                process = self.start("train", self.recipe, "--workers", 2, "--out", "run", "--overwrite", "--set", "length.epochs=4000")
                self.wait_until(lambda: 1 in self.workers("run"), "the start of rank 1")
                os.kill(self.workers("run")[1], number)
                self.assertEqual(process.wait(60), 143, self.log())
                # At once, while it joins, or in the training: how far it had come when the signal came is chance.
                self.assertRegex(self.log(), r"(?m)^(taxon: (rank 1: )?interrupted: |interrupted +after step )")

    def test_standard_streams_that_are_closed_are_nothing_else(self):
        words = ("train", str(self.recipe), "--workers", "2", "--out", "run", "--set", "length.epochs=4000")
        process = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', PROGRAM, *words], cwd=self.folder, env=clean_environment(), start_new_session=True)
        self.started.append(process)
        self.wait_until(lambda: self.steps_seen("run") > 5, "training")
        lock = json.loads((self.folder / "run/.taxon-lock").read_text())
        self.assertEqual(lock["process"], self.workers("run")[0])
        process.terminate()
        self.assertEqual(process.wait(60), 143)
        self.assertTrue(list((self.folder / "run/checkpoints").iterdir()))

    def test_while_others_are_awaited(self):
        port = free_port()
        alone = self.rank(1, 2, port)
        self.wait_until(lambda: "cannot reach rank 0" in self.log_of(1), "dialing")
        alone.send_signal(signal.SIGTERM)
        self.assertEqual(alone.wait(60), 143, self.log_of(1))
        self.assertIn("interrupted while joining", self.log_of(1))

    def test_nohup_is_respected(self):
        previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            process = self.start("train", self.recipe, "--out", "run", "--set", "length.epochs=3")
        finally:
            signal.signal(signal.SIGHUP, previous)
        self.wait_until(lambda: self.steps_seen("run") >= 10, "training")
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(100), 0, self.log())


class Limits(StartupTest):
    def limited(self, which, amount, *words, environment=None):
        def limit():
            resource.setrlimit(which, (amount, amount))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        done = subprocess.run([PROGRAM, *map(str, words)], cwd=self.folder, env=environment or clean_environment(), timeout=120,
                              preexec_fn=limit, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, 72, done.stderr)
        self.assertIn("taxon: ", done.stderr)
        self.assertIn("resources: ", done.stderr)
        return done.stderr

    def test_a_file_that_may_not_grow(self):
        said = self.limited(resource.RLIMIT_FSIZE, 20_000, "train", self.recipe, "--out", "run")
        self.assertIn("File too large: raise ulimit -f", said)

    def test_open_files(self):
        environment = clean_environment(RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
        said = self.limited(resource.RLIMIT_NOFILE, 30, "train", self.recipe, "--out", "run", environment=environment)
        self.assertIn("raise ulimit -n", said)

    def test_memory(self):
        said = self.limited(resource.RLIMIT_AS, 1_600_000_000, "train", self.recipe, "--out", "run", "--set", "data.train_limit=20000",
                            "--set", "batch.global=20000", "--set", "model={name: cnn}")
        self.assertIn("memory ran out", said)

    def test_less_memory_on_the_host_than_the_run_needs(self):
        meminfo = self.folder / "meminfo"
        meminfo.write_text("MemTotal:  1000000 kB\nMemAvailable:  20 kB\n")
        show = f"mount --bind {meminfo} /proc/meminfo"
        if subprocess.run(["unshare", "--mount", "sh", "-c", show], capture_output=True).returncode != 0:
            self.skipTest("mounts need root")
        done = subprocess.run(["unshare", "--mount", "sh", "-c", show + ' && exec "$@"', "sh", PROGRAM, "train", self.recipe, "--out", "run"],
                              cwd=self.folder, env=clean_environment(), timeout=120, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, 72, done.stderr)
        self.assertIn("memory: rank 0 needs at least", done.stderr)
        self.assertIn("and may have 20.0 KiB", done.stderr)

    def test_less_memory_than_libraries_begin_with(self):
        # OpenBLAS would ask for its share for ever, and a static initialiser would throw.
        for megabytes in (600, 700):
            said = self.limited(resource.RLIMIT_AS, megabytes << 20, "train", self.recipe, "--workers", 2, "--out", "run")
            self.assertIn("raise the limit of memory", said)

    def test_threads(self):
        # A thread's stack is as large as this limit: no address space holds a second one.
        said = self.limited(resource.RLIMIT_STACK, 100 << 40, "train", self.recipe, "--out", "run")
        self.assertIn("threads", said)


class Leftovers(StartupTest):
    def test_what_a_killed_run_was_writing_is_removed_and_nothing_else(self):
        folder = self.folder / "run" / "checkpoints" / "step-7"
        folder.mkdir(parents=True)
        ours, theirs = folder / "rank0.safetensors.tmp-123-123-0", self.folder / "run" / "notes.tmp"
        for path in (ours, theirs):
            path.write_text("half")
        self.taxon("train", self.recipe, "--out", "run", "--overwrite")
        self.assertEqual(list((self.folder / "run").rglob("*.tmp-*")), [])
        self.assertTrue(theirs.exists())

    def test_an_output_folder_that_vanishes_ends_the_run(self):
        process = self.start("train", self.recipe, "--workers", 2, "--out", "run", "--set", "length.epochs=400")
        self.wait_until(lambda: self.steps_seen("run") >= 20, "training")
        (self.folder / "run").rename(self.folder / "moved")
        self.assertEqual(process.wait(60), 73, self.log())
        self.assertIn("run: the output folder has vanished", self.log())


if __name__ == "__main__":
    unittest.main()
