"""Every test of the tree is one that ctest runs: each class of the Python tests, each file of the C++ tests."""

import ast
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ["TAXON_BUILD"])


def classes_with_tests(path):
    """Names of the classes of a Python file that have test methods."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and any(isinstance(part, ast.FunctionDef) and part.name.startswith("test") for part in node.body):
            yield node.name


def classes_not_run(folder, commands):
    """Classes of the files *_test.py under a folder that no command runs, be it by the file or by module and class."""
    words = {word for command in commands for word in command}
    missing = []
    for path in sorted(folder.glob("*/*_test.py")):
        if str(path) not in words:
            missing += [name for name in (f"{path.stem}.{cls}" for cls in classes_with_tests(path)) if name not in words]
    return missing


class Registered(unittest.TestCase):
    def test_every_class_of_python_tests_is_run(self):
        listing = subprocess.run([os.environ["TAXON_CTEST"], "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True)
        commands = [test.get("command", []) for test in json.loads(listing.stdout)["tests"]]
        self.assertEqual(classes_not_run(TESTS, commands), [])

    def test_every_file_of_cpp_tests_is_compiled(self):
        units = {pathlib.Path(unit["file"]) for unit in json.loads((BUILD / "compile_commands.json").read_text())}
        together = [path.read_text() for path in units if path.parent.name == "Unity"]  # several files at once
        compiled = units | {pathlib.Path(file) for text in together for file in re.findall(r'^#include "(.*)"$', text, re.MULTILINE)}
        self.assertEqual([str(path) for path in sorted(TESTS.rglob("*_test.cc")) if path not in compiled], [])

    def test_a_class_that_nobody_runs_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "app").mkdir()
            path = pathlib.Path(folder) / "app" / "cores_test.py"
            path.write_text("class Base:\n  pass\nclass Run(Base):\n  def test_a(self): pass\nclass Cores(Base):\n  def test_b(self): pass\n")
            run = ["python3", "-m", "unittest", "cores_test.Run"]
            self.assertEqual(classes_not_run(pathlib.Path(folder), [run]), ["cores_test.Cores"])
            self.assertEqual(classes_not_run(pathlib.Path(folder), [run, ["python3", "-m", "unittest", "cores_test.Cores"]]), [])
            self.assertEqual(classes_not_run(pathlib.Path(folder), [["python3", str(path)]]), [])


if __name__ == "__main__":
    unittest.main()
