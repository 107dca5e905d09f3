"""A run's folder: what is there stays until something better is, one run at a time, and what a run goes on from."""

import json
import os
import pathlib
import signal
import socket
import time
import unittest

from taxon_run import TaxonTest, clean_environment


def tree(folder):
    """Every file with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Overwrite(TaxonTest):
    def setUp(self):
        super().setUp()
        self.taxon("train", self.recipe, "--out", "run", "--set", "length.epochs=1")
        self.run_folder = self.folder / "run"
        (self.run_folder / "notes.txt").write_text("mine")
        (self.run_folder / "checkpoints/notes.txt").write_text("mine too")
        self.before = tree(self.run_folder)

    def expect_untouched(self):
        self.assertEqual(tree(self.run_folder), self.before)

    def test_nothing_is_touched_before_all_is_known_to_be_good(self):
        for how in ("--overwrite", "--resume"):
            with self.subTest(how=how):
                missing = ("--set", "data.dataset=idx", "--set", "data.path=/nowhere")
                self.taxon("train", self.recipe, "--out", "run", how, *missing, code=65)
                self.expect_untouched()
                self.taxon("train", self.recipe, "--out", "run", how, "--workers", 2, *missing, code=65)
                self.expect_untouched()
                self.taxon("train", self.recipe, "--out", "run", how, "--set", "model={torchscript: none.pt}", code=65)
                self.expect_untouched()
                for wrong in (("control.secret_file=/nowhere",), ("mesh.tensor=2", "mesh.splits=[nosuch=none]")):
                    sets = [word for one in wrong for word in ("--set", one)]
                    result = self.taxon("train", self.recipe, "--out", "run", how, "--workers", 2, *sets, code=2)
                    self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
                    self.expect_untouched()
                with socket.socket() as taken:
                    taken.bind(("127.0.0.1", 0))
                    taken.listen()
                    job = {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": taken.getsockname()[1]}
                    self.taxon("train", self.recipe, "--out", "run", how, code=69, environment=clean_environment(**job))
                self.expect_untouched()
                port = free_port()
                processes = []
                for rank in range(2):  # with different secrets
                    job = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TAXON_SECRET": f"s{rank}"}
                    processes.append(self.start("train", self.recipe, "--out", "run", how, "--set", "control.join_seconds=3",
                                                environment=clean_environment(**job), log=self.folder / f"log{rank}"))
                self.assertEqual([process.wait(60) for process in processes], [69, 69])
                self.expect_untouched()

    def test_the_old_run_goes_when_the_new_one_has_a_checkpoint_and_other_files_stay(self):
        self.taxon("train", self.recipe, "--out", "run", "--overwrite")
        self.assertEqual(self.summary("run")["steps"], 100)
        self.assertFalse((self.run_folder / "replaced-run").exists())
        self.assertEqual((self.run_folder / "notes.txt").read_text(), "mine")
        self.assertEqual((self.run_folder / "checkpoints/notes.txt").read_text(), "mine too")
        self.assertEqual([path.name for path in (self.run_folder / "checkpoints").glob("step-*")], ["step-00000100"])

    def test_it_is_kept_where_the_new_one_dies_before(self):
        for _ in range(2):  # the second time there is nothing of the first to keep
            process = self.start("train", self.recipe, "--out", "run", "--overwrite", "--set", "length.epochs=4000")
            self.wait_until(lambda: "training samples" in self.log(), "training")
            process.send_signal(signal.SIGKILL)
            process.wait(30)
            kept = tree(self.run_folder / "replaced-run")
            for name, data in self.before.items():
                if not name.endswith("notes.txt"):
                    self.assertEqual(kept[name], data, name)
        self.taxon("train", self.recipe, "--out", "run", "--overwrite")
        self.assertFalse((self.run_folder / "replaced-run").exists())

    def test_the_log_says_where_it_is(self):
        result = self.taxon("train", self.recipe, "--out", "run", "--overwrite", "--set", "learning_rate.base=1e36", code=67)
        self.assertIn("run/replaced-run", result.stderr)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class OneAtATime(TaxonTest):
    LONG = ("--set", "length.epochs=4000")

    def test_a_second_run_is_refused_and_a_dead_one_is_no_obstacle(self):
        process = self.start("train", self.recipe, "--out", "run", *self.LONG)
        self.wait_until(lambda: self.steps_seen("run") > 5, "training")
        for how in ("--overwrite", "--resume"):
            for workers in ((), ("--workers", 2)):
                result = self.taxon("train", self.recipe, "--out", "run", how, *workers, *self.LONG, code=2)
                self.assertIn(f"in use by process {process.pid} of host {socket.gethostname()}", result.stderr)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        result = self.taxon("train", self.recipe, "--out", "run", "--overwrite", "--set", "length.epochs=1")
        self.assertIn(f"left behind by process {process.pid}", result.stderr)
        self.assertFalse((self.folder / "run/.taxon-lock").exists())

    def test_another_host_holds_it_as_long_as_it_shows_life(self):
        lock = self.folder / "run/.taxon-lock"
        lock.parent.mkdir()
        lock.write_text(json.dumps({"host": "faraway", "process": 12, "start": "9", "machine": "another", "since": "today"}))
        result = self.taxon("train", self.recipe, "--out", "run", "--set", "length.epochs=1", code=2)
        self.assertIn("in use by process 12 of host faraway, since today", result.stderr)
        long_ago = time.time() - 3600
        os.utime(lock, (long_ago, long_ago))
        result = self.taxon("train", self.recipe, "--out", "run", "--set", "length.epochs=1")
        self.assertIn("left behind by process 12 of host faraway", result.stderr)

    def test_a_number_that_another_process_has_by_now_is_no_owner(self):
        lock = self.folder / "run/.taxon-lock"
        lock.parent.mkdir()
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        machine = f"{boot} {os.readlink('/proc/self/ns/pid')}"
        owner = {"host": socket.gethostname(), "process": os.getpid(), "start": "1", "machine": machine, "since": "today"}
        lock.write_text(json.dumps(owner))
        self.taxon("train", self.recipe, "--out", "run", "--set", "length.epochs=1")
        owner["start"] = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
        lock.write_text(json.dumps(owner))
        self.taxon("train", self.recipe, "--out", "run", "--overwrite", code=2)


class Resume(TaxonTest):
    BESIDE_OTHERS = True

    def setUp(self):
        super().setUp()
        self.taxon("train", self.recipe, "--out", "run", "--set", "checkpoint.every_steps=20", "--set", "checkpoint.keep=9")
        self.whole = self.summary("run")["parameter_hash"]

    def resume(self, *more, code=0):
        return self.taxon("train", more[0], self.recipe, *more[1:], "--out", "run", "--set", "checkpoint.every_steps=20", "--set",
                          "checkpoint.keep=9", code=code)

    def test_from_a_step(self):
        self.assertIn("resumed after step 40", self.resume("--resume=40").stderr)
        self.assertEqual(self.summary("run")["parameter_hash"], self.whole)
        self.assertIn("20, 40, 60, 80, 100", self.resume("--resume=41", code=66).stderr)
        for word in ("abc", "-4", "1x"):
            self.assertIn("is no step", self.resume(f"--resume={word}", code=2).stderr)

    def test_from_the_newest_whole_one(self):
        weights = self.folder / "run/checkpoints/step-00000100/model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-7])
        result = self.resume("--resume")
        self.assertIn("model.safetensors", result.stderr)
        self.assertIn("resumed after step 80", result.stderr)
        self.assertEqual(self.summary("run")["parameter_hash"], self.whole)

    def test_otherwise_only_on_purpose(self):
        self.recipe.write_text(self.recipe.read_text().replace("seed: 3", "seed: 4").replace("global: 40", "global: 20"))
        result = self.resume("--resume=40", code=2)
        for words in ("seed was 3 and is 4", "batch.global was 40 and is 20", "--set seed=4 --set batch.global=20"):
            self.assertIn(words, result.stderr)
        self.resume("--resume=40", "--set", "seed=4", code=2)
        self.assertIn("as told", self.resume("--resume=40", "--set", "seed=4", "--set", "batch.global=20").stderr)


class Sizes(TaxonTest):
    BESIDE_OTHERS = True

    def test_a_recipe_of_any_size_is_no_recipe(self):
        self.recipe.write_text("# " + "x" * (1 << 20))
        self.assertIn("larger than", self.taxon("train", self.recipe, code=2).stderr)
        self.assertIn("larger than", self.taxon("train", "/dev/zero", code=2).stderr)

    def test_several_workers_can_not_read_a_recipe_from_a_pipe(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assertIn("each of several workers reads the recipe", self.taxon("train", pipe, "--workers", 2, code=2).stderr)

    def test_a_folder_that_can_not_be_is_an_error_of_the_output(self):
        for workers in (1, 2):
            self.assertIn("File name too long", self.taxon("train", self.recipe, "--out", "x" * 300, "--workers", workers, code=73).stderr)


if __name__ == "__main__":
    unittest.main()
