"""Documents that claim something about Taxon name tests that exist."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "comparison-with-others.md"
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def rows(text):
    """Cells of every row of the page's table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def wrong_link(name, target):
    """What is wrong with a link to a test; empty: nothing."""
    path = (PAGE.parent / target).resolve()
    if not path.is_file():
        return f"{target} is no file"
    suite, _, test = name.partition(".")
    text = path.read_text()
    if path.suffix == ".py":
        known = re.search(rf"^class {suite}\b", text, re.MULTILINE) and re.search(rf"^    def {test}\(", text, re.MULTILINE)
    else:
        known = re.search(rf"^TEST(_F|_P)?\({suite}, {test}\)", text, re.MULTILINE)
    return "" if known else f"{target} has no test {name}"


class Comparison(unittest.TestCase):
    def test_each_claim_is_proved_by_tests_that_exist(self):
        table = rows(PAGE.read_text())
        self.assertGreater(len(table), 10)
        wrong = []
        for discipline, taxon, *others in table:
            self.assertEqual(len(others), 6, discipline)
            links = LINK.findall(taxon)
            if not links and taxon != "no":
                wrong.append(f"{discipline}: '{taxon}' names no test")
            wrong += [f"{discipline}: {what}" for what in (wrong_link(*link) for link in links) if what]
        self.assertEqual(wrong, [])

    def test_a_test_that_is_missing_is_noticed(self):
        self.assertIn("is no file", wrong_link("A.B", "../tests/nowhere.cc"))
        self.assertIn("has no test", wrong_link("Desk.DoesNotExist", "../tests/exchange/desk_test.cc"))
        self.assertIn("has no test", wrong_link("Systems.test_nothing", "../tests/app/systems_test.py"))
        self.assertEqual(wrong_link("Desk.AsynchronousNeverWaits", "../tests/exchange/desk_test.cc"), "")


if __name__ == "__main__":
    unittest.main()
