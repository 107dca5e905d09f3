"""`taxon codecs`: every codec on gradients of a recipe."""

import re
import unittest

from taxon_run import TaxonTest


class Codecs(TaxonTest):
    def figures(self, *arguments):
        """Columns of each codec's line, and the milliseconds of a dense step."""
        out = self.taxon("codecs", self.recipe, "--steps", 2, *arguments).stdout
        lines = {line.split()[0]: line.split() for line in out.splitlines() if re.match(r"\S+ +[0-9.]+ +[0-9]+ %", line)}
        return lines, float(re.search(r"which takes ([0-9.]+) ms", out).group(1)), out

    def test_each_has_its_figures(self):
        lines, _, out = self.figures()
        names = re.findall(r"^  codec (\w+): ", self.taxon("taxonomy").stdout, re.MULTILINE)
        self.assertGreaterEqual(len(names), 15)
        self.assertEqual(list(lines), names, out)
        # name, encode, its share of a copy (two words), decode (three words), ratio, error, ...
        self.assertAlmostEqual(float(lines["bf16"][7]), 2, delta=0.05)
        self.assertLess(float(lines["bf16"][8]), 0.01)
        self.assertEqual(lines["bf16"][12], "±", "every figure comes with its spread")
        self.assertGreater(float(lines["sign"][7]), 20)
        self.assertLess(float(lines["top_k"][8]), 1)
        self.assertLess(float(lines["int8"][8]), float(lines["int4"][8]))

    def test_a_slow_link_makes_steps_longer_for_what_sends_much(self):
        fast, dense_fast, _ = self.figures("--link", "100Gbit/s")
        slow, dense_slow, out = self.figures("--link", "1Mbit/s")
        self.assertGreater(dense_slow, 10 * dense_fast)
        self.assertLess(float(slow["sign"][11]), dense_slow / 8)
        self.assertIn("shortest step: ", out)
        self.assertNotIn("shortest step: dense", out)
        self.assertLess(float(fast["bf16"][11]), float(slow["bf16"][11]))

    def test_what_is_no_link_is_refused(self):
        result = self.taxon("codecs", self.recipe, "--link", "soon", code=2)
        self.assertIn('--link must be a rate such as 1 Gbit/s or 12 GB/s', result.stderr)


if __name__ == "__main__":
    unittest.main()
