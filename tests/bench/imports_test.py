"""Of which files a benchmark is made, so that its rows are old when one of them has changed, and when another has not."""
import os
import tempfile
import unittest

import context  # noqa: F401
from harness import imports, tables
from harness.build import ROOT

FILES = {
    "one.py": "import os\nfrom harness import shared\n",
    "two.py": "import one\nfrom harness.rest import thing\n",
    "harness/shared.py": "def later():\n    import harness.late\n",
    "harness/late.py": "from harness import shared\n",  # in a circle
    "harness/rest.py": "import absent\nthing = 'import one'\n",
    "harness/unused.py": "",
}


class FilesOf(unittest.TestCase):
    def test_what_it_imports_and_what_that_does(self):
        with tempfile.TemporaryDirectory() as root:
            for name, text in FILES.items():
                path = os.path.join(root, imports.FOLDER, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(text)
            one = ["bench/harness/late.py", "bench/harness/shared.py", "bench/one.py"]
            self.assertEqual(imports.files_of("one", root), one)
            self.assertEqual(imports.files_of("two", root), sorted([*one, "bench/harness/rest.py", "bench/two.py"]))
            self.assertEqual(imports.files_of("harness.rest", root), ["bench/harness/rest.py"])

    def test_of_the_harness_alone_only_what_is_imported_counts(self):
        self.assertEqual(tables.with_harness(["src", "bench/harness", "bench/one.py"], ["bench/harness/late.py", "bench/two.py"]), ["src", "bench/harness/late.py", "bench/one.py"])

    def test_of_benchmarks_of_the_tree(self):
        torch, scaling = imports.files_of("libtorch"), imports.files_of("scaling")
        self.assertIn("bench/harness/slices.py", torch)
        self.assertNotIn("bench/harness/slices.py", scaling)
        self.assertLessEqual({"bench/hybrid.py", "bench/harness/cluster.py"}, set(scaling))
        self.assertTrue(all(os.path.exists(os.path.join(ROOT, path)) for path in torch + scaling))


if __name__ == "__main__":
    unittest.main()
