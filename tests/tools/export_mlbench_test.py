"""tools/export_mlbench.py reads what R saved; the table is one of the test's own, so that no package is needed."""

import bz2
import gzip
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "export_mlbench.py"
ATTRIBUTES, TAG = 0x200, 0x400
END = struct.pack(">i", 254)
MISSING = -(1 << 31)


def text(word):
    return struct.pack(">ii", 9, len(word)) + word.encode()


def symbol(word):
    return struct.pack(">i", 1) + text(word)


def texts(words, flags=0):
    return struct.pack(">ii", 16 | flags, len(words)) + b"".join(map(text, words))


def pair(name, value):
    return struct.pack(">i", 2 | TAG) + name + value


def reals(values):
    return struct.pack(f">ii{len(values)}d", 14, len(values), *values)


def whole(values, flags=0):
    return struct.pack(f">ii{len(values)}i", 13 | flags, len(values), *values)


def table(version):
    """Of 20 rows: x is 0.5 i, missing in the 4th; kind is a factor, b, a, b, ...; n is i."""
    x = [0.5 * i for i in range(20)]
    x[3] = float("nan")
    factor = whole([2 - i % 2 for i in range(20)], ATTRIBUTES) + pair(symbol("levels"), texts(["a", "b"])) + END
    columns = struct.pack(">ii", 19 | ATTRIBUTES, 3) + reals(x) + factor + whole([*range(19), MISSING])
    # R writes the second of a symbol as its number: levels is the 2nd here, after the table's own name.
    columns += pair(symbol("names"), texts(["x", "kind", "n"])) + pair(struct.pack(">i", 2 << 8 | 255), texts(["unused"])) + END
    head = f"RDX{version}\nX\n".encode() + struct.pack(">iii", version, 0x40201, 0x20300)
    encoding = struct.pack(">i", 5) + b"UTF-8" if version == 3 else b""
    return head + encoding + pair(symbol("Own"), columns) + END


class ExportMlbench(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.work.name)

    def tearDown(self):
        self.work.cleanup()

    def export(self, name="Own"):
        return subprocess.run([sys.executable, TOOL, name, self.folder / "out", "--from", self.folder], text=True, capture_output=True)

    def test_columns_factors_and_missing_values(self):
        for version, pack in ((2, bz2.compress), (2, gzip.compress), (3, bytes)):
            (self.folder / "Own.rda").write_bytes(pack(table(version)))
            self.assertEqual(self.export().returncode, 0)
            train = (self.folder / "out/train.csv").read_text().splitlines()
            self.assertEqual(train[:5], ["x,kind,n", "0,1,0", "0.5,0,1", "1,1,2", "2,1,4"])
            self.assertEqual(len(train), 1 + 17)  # 20 less the 4th, the 20th, and the tenth of what is left
            self.assertEqual((self.folder / "out/test.csv").read_text(), "x,kind,n\n5,1,10\n")

    def test_a_table_that_is_not_there(self):
        done = self.export("Other")
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get install r-cran-mlbench", done.stderr)


if __name__ == "__main__":
    unittest.main()
