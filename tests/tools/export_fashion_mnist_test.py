"""tools/export_fashion_mnist.py writes what its layouts promise."""

import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "export_fashion_mnist.py"


def idx(extents, elements):
    return bytes([0, 0, 8, len(extents)]) + struct.pack(f">{len(extents)}I", *extents) + bytes(elements)


class ExportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for prefix, count in (("train", 6), ("t10k", 2)):
            (self.folder / f"{prefix}-images-idx3-ubyte").write_bytes(idx((count, 2, 3), range(count * 6)))
            (self.folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx((count,), range(count)))

    def export(self, layout, *options, code=0):
        out = self.folder / layout
        ran = subprocess.run([sys.executable, "-B", TOOL, layout, out, "--idx", self.folder, *options], capture_output=True, text=True)
        self.assertEqual(ran.returncode, code, ran.stderr)
        return out, ran.stderr

    def test_arrays(self):
        out, _ = self.export("npy")
        samples = (out / "train" / "samples.npy").read_bytes()
        self.assertIn(b"'shape': (6, 2, 3)", samples)
        self.assertEqual(samples[-36:], bytes(range(36)))
        self.assertEqual((len(samples) - 36) % 64, 0)
        self.assertEqual((out / "test" / "labels.npy").read_bytes()[-2:], bytes([0, 1]))

    def test_table(self):
        out, _ = self.export("csv", "--limit", "1")
        self.assertEqual((out / "train.csv").read_text(), "pixel0,pixel1,pixel2,pixel3,pixel4,pixel5,label\n0,1,2,3,4,5,0\n")

    def test_records(self):
        out, _ = self.export("cifar")
        second = (out / "data_batch_2.bin").read_bytes()
        self.assertEqual(len(second), 3073)
        self.assertEqual(second[0], 1)
        self.assertEqual(second[1 + 15 * 32 + 14:1 + 15 * 32 + 17], bytes([6, 7, 8]))
        self.assertEqual(len((out / "test_batch.bin").read_bytes()), 2 * 3073)

    def test_missing_files_are_named(self):
        (self.folder / "t10k-labels-idx1-ubyte").unlink()
        _, said = self.export("csv", code=1)
        self.assertIn("t10k-labels-idx1-ubyte", said)


if __name__ == "__main__":
    unittest.main()
