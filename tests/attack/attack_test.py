"""tools/attack reports what is wrong and nothing else: faults that are planted in a program of a few lines, and a few cases of the
real one. TAXON_PROGRAM is the program, TAXON_BUILD a folder for planted ones."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ATTACK = ROOT / "tools" / "attack"
SKIPPED = 77

# What every planted program does otherwise: as a launcher with two ranks that train for a moment. Ranks are no Python programs: one
# that is interrupted while it imports may print the interruption and go on.
HONEST = """#!{python} -S
import json, os, pathlib, signal, subprocess, sys, time
words = sys.argv[1:]
resumes = "--resume" in words
out = pathlib.Path(words[words.index("--out") + 1]) if "--out" in words else None
count = int(words[words.index("--workers") + 1]) if "--workers" in words else 1
asked = []
for sign in (signal.SIGTERM, signal.SIGINT):
    if signal.getsignal(sign) != signal.SIG_IGN:  # as nohup asks for
        signal.signal(sign, lambda *_: asked.append(1))
def end(code):
    for rank in ranks:
        rank.kill()
        rank.wait()
    sys.stdout.flush()
    os._exit(code)
ranks = []
{planted}
def train(seconds):
    global ranks
    ranks = [subprocess.Popen(["sleep", "60"], env=dict(os.environ, RANK=str(rank))) for rank in range(count)]
    (out / "checkpoints" / "step").mkdir(parents=True, exist_ok=True)
    print("212 parameters, step 10 test after step 5", flush=True)
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        if asked:
            end(143)
        for number, rank in enumerate(ranks):
            if rank.poll() is not None:
                print(f"rank {{{culprit}}} was lost", flush=True)
                end(75)
            if "T" in open(f"/proc/{{rank.pid}}/stat").read().rsplit(")", 1)[1].split()[0]:
                end(74)
        time.sleep(0.01)
train(0.1 if resumes else 3.0)
(out / "summary.json").write_text(json.dumps({{"parameter_hash": {bits}}}))
end(0)
"""


class Processes(unittest.TestCase):
    def test_one_whose_first_thread_has_ended_is_there_until_the_last_has(self):
        loader = importlib.machinery.SourceFileLoader("attack", str(ATTACK))
        attack = importlib.util.module_from_spec(importlib.util.spec_from_loader("attack", loader))
        loader.exec_module(attack)
        child = subprocess.Popen([sys.executable, "-c", "import ctypes, threading, time; "
                                  "threading.Thread(target=time.sleep, args=(60,)).start(); ctypes.CDLL(None).pthread_exit(None)"])
        stat = pathlib.Path(f"/proc/{child.pid}/stat")
        self.assertTrue(attack.wait_until(lambda: ") Z " in stat.read_text(), 30))
        self.assertIn(child.pid, attack.processes())
        child.kill()
        self.assertTrue(attack.wait_until(lambda: child.pid not in attack.processes(), 30))
        child.wait()


class Attack(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TAXON_BUILD"))
        self.addCleanup(self.folder.cleanup)

    def attack(self, program, *words, hang=4):
        report = pathlib.Path(self.folder.name) / "report.json"
        done = subprocess.run([str(ATTACK), "--program", str(program), "--hang-seconds", str(hang), "--json", str(report), *map(str, words)],
                              capture_output=True, text=True)
        if done.returncode == SKIPPED:
            self.skipTest(done.stderr.strip())
        cases = json.loads(report.read_text())["cases"]
        findings = [what for case in cases for what in case["findings"]]
        self.assertEqual(done.returncode, 1 if findings else 0, done.stdout + done.stderr)
        for case in cases:
            if case["findings"]:
                self.assertIn(f"--only {case['family']} --case {case['case']}", done.stdout)
        return findings

    def planted(self, fault="", culprit="number", bits="'a'"):
        path = pathlib.Path(self.folder.name) / "planted"
        path.write_text(HONEST.format(python=sys.executable, planted=fault, culprit=culprit, bits=bits))
        path.chmod(0o755)
        return path

    def expect(self, findings, *words):
        self.assertTrue(findings)
        for what in findings:
            self.assertTrue(any(word in what for word in words), f"{what} has none of {words}")

    def test_an_honest_program_has_no_findings(self):
        self.assertEqual(self.attack(self.planted(), "--only", "kills", "--cases", 4, hang=30), [])

    def test_a_hang_is_found(self):
        self.expect(self.attack(self.planted("time.sleep(1000)"), "--only", "limits", "--case", 1, hang=1), "hangs for 1", "stays")

    def test_an_abort_is_found(self):
        self.expect(self.attack(self.planted("os.abort()"), "--only", "files", "--case", 0), "exit code 134")

    def test_a_broken_invariant_is_found_whatever_the_exit_code(self):
        fault = "print('taxon: broken invariant at x.cc:1: false'); end(2)"
        self.expect(self.attack(self.planted(fault), "--only", "files", "--case", 1), "broken invariant")

    def test_an_exit_code_that_is_not_documented_is_found(self):
        self.expect(self.attack(self.planted("end(1)"), "--only", "files", "--case", 0), "exit code 1 in place of")

    def test_an_orphan_is_found(self):
        fault = "subprocess.Popen(['sleep', '100'], start_new_session=True); end(0)"
        self.expect(self.attack(self.planted(fault), "--only", "files", "--case", 0), "sleep 100")

    def test_shared_memory_that_stays_is_found(self):
        fault = "open('/dev/shm/left', 'w').close(); end(0)"
        self.expect(self.attack(self.planted(fault), "--only", "files", "--case", 0), "/dev/shm/left")

    def test_a_wrong_culprit_is_found(self):
        findings = self.attack(self.planted(culprit="number + 1"), "--only", "kills", "--cases", 12, hang=30)
        self.expect(findings, "culprit")

    def test_other_bits_after_a_resume_are_found(self):
        findings = self.attack(self.planted(bits="'b' if resumes else 'a'"), "--only", "kills", "--cases", 4, hang=30)
        self.expect(findings, "resumed it comes to b, undisturbed to a")

    def test_a_phase_that_has_not_come_is_not_held_against_the_program(self):
        # Rank 0 is stopped while it starts; the end is what was waited for.
        fault = """
if out.name == "out" and not resumes:
    ranks = [subprocess.Popen(["sleep", "60"], env=dict(os.environ, RANK="0"))]
    while "T" not in open(f"/proc/{ranks[0].pid}/stat").read().rsplit(")", 1)[1].split()[0]:
        time.sleep(0.01)
    end(69)
"""
        self.assertEqual(self.attack(self.planted(fault), "--seed", 2, "--only", "kills", "--case", 16, hang=20), [])

    def test_signals_that_the_attacker_ignores_reach_the_program(self):
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            # SIGINT to the launcher while it trains.
            self.assertEqual(self.attack(self.planted(), "--seed", 1, "--only", "kills", "--case", 0, hang=30), [])
        finally:
            signal.signal(signal.SIGINT, previous)

    def test_a_signal_while_libraries_are_loaded_is_no_finding(self):
        # SIGINT to the launcher in startup.
        fault = """
signal.signal(signal.SIGINT, signal.SIG_DFL)
if out.name == "out" and not resumes:
    time.sleep(1)
"""
        self.assertEqual(self.attack(self.planted(fault), "--seed", 3, "--only", "kills", "--case", 13, hang=30), [])
        # SIGINT to rank 0 in rendezvous.
        fault = """
if out.name == "out" and not resumes:
    ranks = [subprocess.Popen(["sleep", "60"], env=dict(os.environ, RANK=str(rank))) for rank in range(count)]
    ranks[0].wait()
    end(128 - ranks[0].returncode)
"""
        self.assertEqual(self.attack(self.planted(fault), "--seed", 20261122, "--only", "kills", "--case", 11, hang=30), [])

    def test_strangers_call_at_runs_that_end_by_the_clock(self):
        fault = "if not any(word.startswith('length.seconds=') for word in words): time.sleep(1000)"
        self.assertEqual(self.attack(self.planted(fault), "--only", "wires", "--case", 1, hang=20), [])

    def test_the_program_withstands_a_few(self):
        self.assertEqual(self.attack(os.environ["TAXON_PROGRAM"], "--seed", 1, "--only", "kills,files", "--cases", 1, hang=120), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
