"""tools/export_bible.py cuts what `bible` prints into chapters; the program is one of the test's own, so that no package is needed."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "export_bible.py"
PRINTED = """

Genesis 1

  1 In the beginning.
  2 And the earth.

Genesis 2

  1 Thus the heavens.

1 Samuel 1

  1 Now there was a certain man.
"""


class ExportBible(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def export(self, *options):
        environment = dict(os.environ, PATH=f"{self.folder}:/usr/bin:/bin")
        return subprocess.run([sys.executable, "-B", TOOL, self.folder / "kjv", *options], env=environment, capture_output=True, text=True)

    def test_every_nth_chapter_is_for_testing(self):
        program = self.folder / "bible"
        program.write_text(f"#!/bin/sh\ncat <<'E'\n{PRINTED}E\n")
        program.chmod(0o755)
        ran = self.export("--every", "2")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        train, test = ((self.folder / "kjv" / f"{name}.txt").read_text() for name in ("train", "test"))
        self.assertEqual(test, "Genesis 2\n1 Thus the heavens.\n\n")
        self.assertEqual(train, "Genesis 1\n1 In the beginning.\n2 And the earth.\n\n1 Samuel 1\n1 Now there was a certain man.\n\n")
        self.assertIn("3 chapters", ran.stdout)

    def test_says_what_is_wrong(self):
        self.assertIn("at least 2", self.export("--every", "1").stderr)


if __name__ == "__main__":
    unittest.main()
