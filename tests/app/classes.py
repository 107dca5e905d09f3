"""Prints the classes of end-to-end tests, a line each: module.Class, and whether it may run beside others."""

import importlib
import os
import pathlib
import unittest

os.environ.setdefault("TAXON_PROGRAM", "")

for path in sorted(pathlib.Path(__file__).parent.glob("*_test.py")):
    module = importlib.import_module(path.stem)
    for name, found in sorted(vars(module).items()):
        if isinstance(found, type) and found.__module__ == path.stem and unittest.defaultTestLoader.getTestCaseNames(found):
            print(f"{path.stem}.{name}={'beside' if found.BESIDE_OTHERS else 'alone'}")
