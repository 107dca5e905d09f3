"""The program's words: what is mistyped, completion, the manual page, recipes by name, results for programs, and a terminal's first lines."""

import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import unittest

from taxon_run import PROGRAM, RECIPE, ROOT, TaxonTest, clean_environment


class Words(TaxonTest):
    BESIDE_OTHERS = True

    def refused(self, *words):
        result = self.taxon(*words, code=2)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("taxon: usage: "), lines[0])
        self.assertEqual(result.stdout, "")
        return lines[0]

    def test_what_is_mistyped_is_guessed(self):
        self.assertIn('there is no command "trian"; did you mean train?', self.refused("trian", "x.yaml"))
        self.assertIn("there is no option --worker; did you mean --workers?", self.refused("train", self.recipe, "--worker=2"))
        self.assertIn("there are train, ", self.refused("xyzzy"))
        self.assertIn("a command is missing", self.refused())

    def test_what_is_wrong_is_said_in_one_line(self):
        for words in (("train",), ("train", self.recipe, "--workers", "0"), ("train", self.recipe, "--workers", "many"), ("train", self.recipe, "--dry-run", "--json"), ("compare", self.recipe, "--seconds", "-1"),
                      ("train", self.recipe, "--resume", "--overwrite"), ("train", self.recipe, self.recipe), ("train", self.recipe, "--all"),
                      ("simulate", self.recipe, "--replay", "3"), ("completion", "ksh")):
            with self.subTest(words=words):
                line = self.refused(*words)
                self.assertIn(f"(see taxon {words[0]} --help)", line)
                self.assertLess(len(line), 200)


class Output(TaxonTest):
    BESIDE_OTHERS = True

    def test_what_can_not_be_printed_is_an_error(self):
        for words in (["recipes"], ["--version"], ["train", "--help"], ["train", self.recipe, "--dry-run"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                result = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment(), cwd=self.folder)
                self.assertEqual((73, "taxon: output: "), (result.returncode, result.stderr[:15]), result.stderr)


class Recipes(TaxonTest):
    BESIDE_OTHERS = True

    def test_a_name_is_enough(self):
        by_name = self.taxon("taxonomy", "horovod").stdout
        self.assertEqual(by_name, self.taxon("taxonomy", ROOT / "recipes/systems/horovod.yaml").stdout)
        listed = [line.split()[0] for line in self.taxon("recipes").stdout.splitlines()]
        self.assertIn("horovod", listed)
        self.assertIn("fashion-mnist-cnn", listed)
        self.assertEqual(len(listed), len(set(listed)), "two recipes have one name")

    def test_a_file_here_wins(self):
        (self.folder / "horovod").write_text(RECIPE.replace("name: test", "name: mine"))
        self.assertIn("mine ", self.taxon("taxonomy", "horovod").stdout)

    def test_what_is_not_known_lists_the_nearest(self):
        error = self.taxon("train", "horovd", code=2).stderr
        self.assertIn('taxon: usage: there is no file "horovd"', error)
        self.assertIn("did you mean horovod?", error)
        self.assertIn("gs-sgd", self.taxon("train", "sgd-split", code=2).stderr)
        self.assertIn("cannot be read", self.taxon("train", "nothing.yaml", code=2).stderr)

    def test_an_installation_finds_its_own(self):
        for place in ("bin", "share/taxon/recipes/systems"):
            (self.folder / place).mkdir(parents=True)
        (self.folder / "share/taxon/recipes/systems/only-here.yaml").write_text(RECIPE.replace("name: test", "name: installed"))
        program = self.folder / "bin/taxon"
        shutil.copy(PROGRAM, program)
        result = subprocess.run([program, "taxonomy", "only-here"], capture_output=True, text=True, timeout=90, env=clean_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("installed ", result.stdout)
        result = subprocess.run([program, "taxonomy", "horovod"], capture_output=True, text=True, timeout=90, env=clean_environment())
        self.assertEqual(result.returncode, 2)


class Texts(TaxonTest):
    """What is made from the table of commands."""
    BESIDE_OTHERS = True

    def commands(self):
        text = self.taxon("--help").stdout
        return re.findall(r"^  (\w+) ", text[text.index("Subcommands:"):], re.MULTILINE)

    def script(self, shell):
        path = self.folder / shell
        path.write_text(self.taxon("completion", shell).stdout)
        return path

    def complete_in_bash(self, *words):
        line = " ".join(f"'{word}'" for word in words)
        command = f"source {self.script('bash')}; PATH={pathlib.Path(PROGRAM).parent}:$PATH; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _taxon; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        result = subprocess.run(["bash", "--norc", "-c", command], capture_output=True, text=True, timeout=90, cwd=self.folder, env=clean_environment())
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_bash_completes(self):
        self.assertIn("train", self.commands())
        self.assertLessEqual(set(self.commands()), set(self.complete_in_bash("taxon", "")))
        self.assertEqual(self.complete_in_bash("taxon", "tra"), ["train"])
        self.assertEqual(self.complete_in_bash("taxon", "train", "--work"), ["--workers"])
        self.assertEqual(self.complete_in_bash("taxon", "train", "horov"), ["horovod"])
        self.assertEqual(self.complete_in_bash("taxon", "train", "rec"), ["recipe.yaml"])
        self.assertEqual(self.complete_in_bash("taxon", "simulate", "horovod", "--cluster", "rec"), ["recipe.yaml"])
        self.assertEqual(self.complete_in_bash("taxon", "completion", "fi"), ["fish"])

    def check_with(self, shell, *words):
        script = self.script(shell)
        text = script.read_text()
        for command in self.commands():
            self.assertIn(command, text)
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        result = subprocess.run([shell, *words, script], capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_zsh_takes_it(self):
        self.check_with("zsh", "-n")

    def test_fish_takes_it(self):
        self.check_with("fish", "--no-execute")

    def test_the_manual_page_has_every_command_and_option(self):
        page = self.script("man")
        text = page.read_text()
        for command in self.commands():
            self.assertIn(f".SS taxon {command}", text)
            for option in re.findall(r"--([a-z-]+)", self.taxon(command, "--help").stdout.split("Options:", 1)[1]):
                self.assertIn(option.replace("-", "\\-"), text)
        for tool in (("groff", "-man", "-Tutf8"), ("man", "--warnings", "-l")):
            if shutil.which(tool[0]):
                result = subprocess.run([*tool, page], capture_output=True, text=True, timeout=60, env={**os.environ, "MANPAGER": "cat"})
                self.assertEqual((result.returncode, result.stderr), (0, ""), tool)


class Json(TaxonTest):
    """Results for programs: these keys stay."""
    BESIDE_OTHERS = True

    def json(self, *words, code=0):
        return json.loads(self.taxon(*words, code=code).stdout)

    def test_version(self):
        facts = self.json("--version", "--json")
        self.assertEqual(list(facts), ["taxon", "libtorch", "BLAS", "OPENBLAS_CORETYPE", "oneDNN", "UCX", "compiler", "build", "sanitizers"])
        for name, value in facts.items():
            self.assertIn(f"{name}: {value}", self.taxon("--version").stdout)

    def test_doctor(self):
        result = subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, text=True, timeout=90, env=clean_environment())
        self.assertIn(result.returncode, (0, 1))
        findings = json.loads(result.stdout)["findings"]
        for finding in findings:
            self.assertEqual(list(finding), ["subject", "value", "verdict", "advice"])
            self.assertIn(finding["verdict"], ("good", "poor", "missing"))
        self.assertLessEqual({"cores", "load", "memory", "libtorch", "BLAS"}, {finding["subject"] for finding in findings})

    def test_openblas_multiplies_as_the_processor_can(self):
        facts = self.json("--version", "--json")
        if "DYNAMIC_ARCH" not in facts["BLAS"]:
            self.skipTest("the BLAS has no choice of kernels")
        with open("/proc/cpuinfo", encoding="ascii") as file:
            has_avx2 = {"avx2", "fma", "f16c"} <= set(file.read().split())
        if has_avx2:
            self.assertNotIn("Prescott", facts["BLAS"])
        environment = clean_environment() | {"OPENBLAS_CORETYPE": "Prescott"}
        version, doctor = (subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=90, env=environment)
                           for words in (["--version"], ["doctor"]))
        self.assertIn("Prescott", version.stdout)  # who sets it has it
        if has_avx2:
            self.assertRegex(doctor.stdout, r"poor     BLAS .*\n.*export OPENBLAS_CORETYPE=(Haswell|SkylakeX)")

    def test_taxonomy(self):
        found = self.json("taxonomy", "horovod", "--json")
        names = [axis["name"] for axis in found["axes"]]
        self.assertEqual(names, ["parallelism", "optimisation", "scheduling", "communication", "compression"])
        self.assertEqual(list(found["recipes"][0]), ["name", *names])

    def test_rows_of_one_name(self):
        page = self.taxon("taxonomy", "--row", "top_k").stdout
        self.assertIn("exchange.levels.codec.name: top_k\n", page)
        self.assertIn("  key density: ", page)
        pages = self.taxon("taxonomy", "--row", "ring").stdout
        self.assertIn("exchange.levels.graph: ring\n", pages)
        self.assertIn("exchange.levels.collective, all_reduce: ring\n", pages)
        self.assertIn("did you mean top_k?", self.taxon("taxonomy", "--row", "topk", code=2).stderr)

    def test_codecs(self):
        found = self.json("codecs", self.recipe, "--steps", 1, "--json")
        self.assertEqual(list(found), ["recipe", "workers", "gradient_bytes", "pass_seconds", "copy_bytes_per_second", "link_bytes_per_second",
                                       "dense", "codecs", "shortest", "queued_share", "trusted"])
        self.assertEqual(list(found["codecs"][0]), ["name", "encode_seconds", "decode_seconds", "spread", "ratio", "error", "sent_bytes",
                                                    "step_seconds"])

    def test_calibrate(self):
        found = self.json("calibrate", "--quick", "--workers", 2, "--threads", 1, "--out", "cluster.yaml", "--json")
        self.assertEqual(found["cluster_file"], "cluster.yaml")
        self.assertEqual((len(found["ranks"]), len(found["links"])), (2, 1))
        self.assertGreater(found["ranks"][0]["alone"]["flops"], 0)
        self.assertIn("queued_share", found["ranks"][0])
        self.assertIn(found["trusted"], (True, False))

    def test_train_ends_with_its_summary(self):
        self.assertEqual(self.json("train", self.recipe, "--workers", 2, "--out", "run", "--json"), self.summary("run"))


class FirstLines(TaxonTest):
    QUIET = ("--set", "evaluation.every_epochs=0", "--set", "checkpoint.every_epochs=0")

    def test_a_dry_run_says_what_differs_then_memory_and_bytes(self):
        text = self.taxon("train", self.recipe, "--workers", 2, "--dry-run").stdout
        keys, _, facts = text.partition("\n\n")
        for words in ("seed: 3", "dataset: synthetic", "train_limit: 2000"):
            self.assertIn(words, keys)
        self.assertNotIn("hang_seconds", text)
        self.assertNotIn("resolved", text)
        self.assertRegex(facts, r"# .* parameters(.*\n)+# memory per worker: .*\n# sent per step and worker: ")
        whole = self.taxon("train", self.recipe, "--workers", 2, "--dry-run", "--all").stdout
        self.assertIn("hang_seconds", whole)
        self.assertIn("buckets:", whole)
        # What is printed is a recipe of the same run.
        (self.folder / "changes.yaml").write_text(text)
        again = self.taxon("train", "changes.yaml", "--workers", 2, "--dry-run").stdout
        self.assertEqual(again.partition("\n\n")[0], keys)

    def test_a_dry_run_divides_the_model_as_the_run_does(self):
        def figure(words):
            number, unit = words.split()
            return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)

        for axis, micro_batches, lines in (("pipeline", 2, 2), ("tensor", 1, 1)):
            with self.subTest(axis=axis):
                divided = ("train", self.recipe, "--workers", 2, "--set", f"mesh.{axis}=2", "--set", f"batch.micro_batches={micro_batches}", *self.QUIET)
                text = self.taxon(*divided, "--dry-run").stdout
                parts = re.findall(r"^# ranks? .*: memory at least .* \(weights ([^,]*), .*\), sent per step ([^,]*) in \d+ buckets$", text, re.MULTILINE)
                self.assertEqual(len(parts), lines, text)
                result = self.taxon(*divided, "--overwrite", "--out", "run", "--set", "length.epochs=0.2")
                summary = self.summary("run")
                self.assertAlmostEqual(figure(parts[0][0]) / summary["arena_bytes"]["weights"], 1, delta=0.03)
                self.assertAlmostEqual(sum(figure(sent) for _, sent in parts) / lines / summary["bytes_sent_per_step"], 1, delta=0.05)
                for first in re.findall(r"^# ((?:pipeline of 2 by|of micro-batches of) .*)", text, re.MULTILINE):
                    self.assertIn(first, result.stdout + result.stderr)

    def test_many_buckets_fit_a_screen(self):
        many = ("train", self.recipe, "--workers", 2, "--overwrite", "--out", "run", "--set", "exchange.bucket_bytes=4KiB", "--set", "length.epochs=0.1")
        brief = self.taxon(*many).stderr
        lines = [line for line in brief.splitlines() if "bucket" in line]
        self.assertLessEqual(len(lines), 8, brief)
        self.assertIn("more buckets", brief)
        whole = self.taxon(*many, "--verbose").stderr
        buckets = len(self.summary("run")["buckets"])
        self.assertGreater(buckets, 4)
        for b in range(buckets):
            self.assertIn(f"bucket {b}: ", whole)

    def test_a_norm_is_recorded_only_where_it_is_computed(self):
        def tags():
            return json.loads((self.folder / "run/metrics.jsonl").read_text().splitlines()[0])
        self.taxon("train", self.recipe, "--out", "run")
        self.assertNotIn("gradient_norm", tags())
        self.taxon("train", self.recipe, "--out", "run", "--overwrite", "--set", "optimiser.clip_norm=1")
        self.assertGreater(tags()["gradient_norm"], 0)

    def on_a_terminal(self, *words, columns=60):
        """Starts the program with a terminal for its stderr; returns the process and the terminal's other end."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs, cwd=self.folder,
                                   env=clean_environment(TERM="xterm"))
        os.close(theirs)
        self.started.append(process)
        return process, ours

    def read_until(self, terminal, text, pattern):
        while not re.search(pattern, text):
            try:
                text += os.read(terminal, 4096).decode()
            except OSError:  # everybody has closed it
                break
        self.assertRegex(text, pattern)
        return text

    def test_ctrl_c_is_answered_on_a_line_of_its_own(self):
        process, terminal = self.on_a_terminal("train", self.recipe, "--workers", 2, "--out", "run", "--set", "length.epochs=5000", *self.QUIET)
        text = self.read_until(terminal, "", r"step \d+.*step \d+")
        process.send_signal(signal.SIGINT)
        text = self.read_until(terminal, text, r"once more ends them now\r\n")
        # What stood on the row before is cleared: the sentence begins at the row's beginning.
        self.assertRegex(text, r"(\n|\r\x1b\[K)taxon: Interrupt: ")
        self.read_until(terminal, text, r"saved")
        self.assertEqual(process.wait(60), 143)
        os.close(terminal)

    def test_a_narrower_window_is_noticed(self):
        process, terminal = self.on_a_terminal("train", self.recipe, "--out", "run", "--set", "length.epochs=5000", *self.QUIET)
        text = self.read_until(terminal, "", r"\x1b\[K(\x1b\[36m)?epoch [^\x1b]*lr")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
        text = self.read_until(terminal, text, r"\x1b\[\d+A\r\x1b\[J(\x1b\[36m)?epoch [^\x1b]*\x1b")
        line = re.findall(r"\x1b\[J(?:\x1b\[36m)?(epoch [^\x1b]*)", text)[0]
        self.assertLess(len(line), 30)
        process.terminate()
        process.wait(60)
        os.close(terminal)


class Cores(TaxonTest):
    """Ranks that share cores without having been told, and others on the cores."""

    def test_ranks_whose_launchers_do_not_know_of_each_other_share_the_cores(self):
        from train_test import free_port
        port = free_port()
        processes = []
        for rank in range(2):
            environment = clean_environment(RANK=rank, WORLD_SIZE=2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            processes.append(self.start("train", self.recipe, "--out", "run", environment=environment, log=self.folder / f"log{rank}"))
        logs = [(process.wait(90), (self.folder / f"log{rank}").read_text()) for rank, process in enumerate(processes)]
        self.assertEqual([code for code, _ in logs], [0, 0], logs)
        cores = len(os.sched_getaffinity(0))
        self.assertEqual(self.summary("run")["cores"]["threads"], max(1, cores // 2))
        if cores > 1:
            self.assertIn(f"2 ranks share the {cores} cores of this machine, more than their launcher says", logs[0][1])
            self.assertNotIn("2 ranks share", logs[1][1])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_who_finds_the_cores_busy_says_so_and_lets_threads_sleep(self):
        # Others: as many busy processes as cores, and as many again.
        others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * len(os.sched_getaffinity(0)))]
        try:
            environment = clean_environment()
            for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
                environment.pop(name, None)
            result = self.taxon("train", self.recipe, "--out", "run", "--set", "length.epochs=1000", "--set", "length.seconds=6", environment=environment)
        finally:
            for other in others:
                other.kill()
                other.wait()
        cores = self.summary("run")["cores"]
        if cores["queued_share"] is None:
            self.skipTest("this kernel does not count what threads wait for cores")
        self.assertGreater(cores["queued_share"], 0.1)
        self.assertIn("busy", result.stdout)
        self.assertIn("the cores are busy: threads waited", result.stderr)

    def test_the_plan_may_say_how_threads_wait(self):
        self.taxon("train", self.recipe, "--out", "run", "--set", "waiting=passive", "--set", "threads=2")
        environment = clean_environment()
        expected = "given" if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(environment) else "passive"
        self.assertEqual(self.summary("run")["cores"]["waiting"], expected)
        self.assertIn("waiting", self.taxon("train", self.recipe, "--set", "waiting=impatient", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
