"""What documents point at exists: tests that prove what they claim, pages and their headings, files of the tree."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "comparison-with-others.md"
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


# Files that a page names, by their endings or by the folder that they begin with; src/ may be left out, as in includes.
PATH = re.compile(r"`((?:(?:apps|bench|clusters|docs|examples|profiles|recipes|src|tests|tools)/[\w./-]+)|(?:[\w-]+/)+[\w-]+\.(?:cc|h|py|md|yaml))`")


# Names of the code, and files without their folder.
QUALIFIED = re.compile(r"`((?:[A-Za-z_]\w*::)+~?[A-Za-z_]\w*)(?:\([^`]*\)|<[^`]*>)?`")
BARE = re.compile(r"`([\w-]+\.(?:cc|h))`")
OTHERS = {"std", "torch", "at", "c10", "c10d", "sysexits.h"}  # other libraries'


def pages():
    listed = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "src" / "README.md", ROOT / "recipes" / "systems" / "README.md"]
    return [*listed, *sorted((ROOT / "src").glob("*/README.md")), *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "decisions").glob("*.md"))]


def prose(text):
    """Without examples."""
    return re.sub(r"^    [^\n]*$|^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """Of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", LINK.sub(r"\1", head).lower()).replace(" ", "-") for head in heads}


def dead(page, text):
    """What a page points at and is not there."""
    found = []
    for _, target in LINK.findall(prose(text)):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if "://" in target:
            continue
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text())):
            found.append(target)
    for path in PATH.findall(prose(text)):
        stem = ROOT / path
        if not (stem.exists() or (ROOT / "src" / path).exists() or (page.parent / path).exists() or stem.with_suffix(".h").exists() or "NAME" in path):
            found.append(path)
    return found


def declarations():
    """[(classes and namespaces that a source file declares, its words)], and the files' names."""
    found, names = [], set()
    for folder in ("apps", "bench", "examples", "include", "src", "tests"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".cc", ".h"):
                text = file.read_text()
                owners = re.findall(r"\b(?:class|struct|enum class|enum|union|using) (\w+)", text)
                spaces = [part for space in re.findall(r"\bnamespace ([\w:]+)", text) for part in space.split("::")]
                found.append(({*owners, *spaces}, set(re.findall(r"\w+", text))))
                names.add(file.name)
    return found, names


def unknown(text, known):
    """Names of classes' members, and of files, that a page has and the code has not. `known`: declarations()."""
    found, names = known
    qualified = [name for name in QUALIFIED.findall(prose(text)) if name.split("::")[0] not in OTHERS]
    missing = [name for name in qualified if not any(name.split("::")[-2] in owners and name.split("::")[-1].strip("~") in words for owners, words in found)]
    return missing + [name for name in BARE.findall(prose(text)) if name not in names | OTHERS]


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
        self.assertIn("has no test", wrong_link("ConsistencyController.DoesNotExist", "../tests/exchange/consistency_controller_test.cc"))
        self.assertIn("has no test", wrong_link("Systems.test_nothing", "../tests/app/systems_test.py"))
        self.assertEqual(wrong_link("ConsistencyController.AsynchronousNeverWaits", "../tests/exchange/consistency_controller_test.cc"), "")


def misplaced(text):
    """Names of the glossary that the headers beside them don't have."""
    found = []
    for _, names, _, where in rows(text):
        headers = "".join((ROOT / "src" / path).read_text() for path in CODE.findall(where))
        found += [name for name in CODE.findall(names) if not re.search(rf"\b{name}\b", headers)]
    return found


class Glossary(unittest.TestCase):
    def test_names_stand_where_it_says(self):
        self.assertEqual(misplaced((ROOT / "docs" / "glossary.md").read_text()), [])

    def test_a_name_that_is_not_there_is_noticed(self):
        self.assertEqual(misplaced("| a | b | c | d |\n|---|---|---|---|\n| rank | `Rang`, `Named` | a process | `base/named.h` |\n"), ["Rang"])


class Links(unittest.TestCase):
    def test_pages_point_at_what_is_there(self):
        self.assertGreater(len(pages()), 25)
        for page in pages():
            self.assertEqual(dead(page, page.read_text()), [], page.relative_to(ROOT))

    def test_every_page_is_reached_from_the_front_page(self):
        seen, known = set(), [ROOT / "README.md"]
        while known:
            page = known.pop()
            if page in seen or page.suffix != ".md":
                continue
            seen.add(page)
            known += [(page.parent / target.partition("#")[0]).resolve() for _, target in LINK.findall(prose(page.read_text())) if "://" not in target]
        missing = [page for page in (ROOT / "docs").glob("*.md") if page not in seen]
        self.assertEqual(missing, [], "no page leads there")

    def test_what_is_not_there_is_noticed(self):
        text = "    an example: `tests/other_test.cc`\n[a](nowhere.md) [b](README.md#no-such-heading) `tests/nothing_test.cc` `codec/nothing.h` [c](README.md#two-commands) `net/tag.h` `bench/run`"
        self.assertEqual(dead(ROOT / "README.md", text), ["nowhere.md", "README.md#no-such-heading", "tests/nothing_test.cc", "codec/nothing.h"])


class Names(unittest.TestCase):
    def test_pages_name_what_the_code_has(self):
        known = declarations()
        for page in pages():
            if page.parent.name != "decisions":  # they tell of what was, too
                self.assertEqual(unknown(page.read_text(), known), [], page.relative_to(ROOT))

    def test_a_name_that_is_gone_is_noticed(self):
        text = "`control::Patience::join` `Timeouts::join` `door.cc` `acceptor.cc` `std::vector` `ErrorKind::Nothing`"
        self.assertEqual(unknown(text, declarations()), ["control::Patience::join", "ErrorKind::Nothing", "door.cc"])


if __name__ == "__main__":
    unittest.main()
