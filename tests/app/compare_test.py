"""taxon compare, end to end: runs, what is kept, interruption, the report in a browser, wrong input."""

import csv
import html.parser
import os
import re
import shutil
import signal
import subprocess
import unittest
import xml.etree.ElementTree

from taxon_run import HANGS, ROOT, TaxonTest, clean_environment

BLOBS = (ROOT / "recipes/blobs-perceptron.yaml").read_text()
VARIANTS = {
    "ring": "exchange:\n  levels: [{collective: ring}]\n",
    "sharded": "exchange:\n  levels: [{topology: sharded}]\n",
    "delayed": "exchange:\n  delay: 1\n",
}


class Charts(html.parser.HTMLParser):
    """The charts of a page: their curves, and how many marks and bars they have."""

    def __init__(self):
        super().__init__()
        self.charts, self.inside, self.rows = {}, None, 0

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        classes = (attributes.get("class") or "").split()
        if tag == "svg" and "chart" in classes:
            self.inside = self.charts.setdefault(attributes["id"], {"line": 0, "mark": 0, "bar": 0, "compute": 0, "talk": 0})
        elif tag == "svg":
            self.inside = None
        if self.inside is not None:
            for name in classes:
                if name in self.inside and attributes.get("d") != "":
                    self.inside[name] += 1
        self.rows += tag == "tr"

    def handle_endtag(self, tag):
        if tag == "svg":
            self.inside = None


def charts_of(page):
    parser = Charts()
    parser.feed(page)
    return parser


class CompareTest(TaxonTest):
    def setUp(self):
        super().setUp()
        self.recipes = []
        for name, more in VARIANTS.items():
            path = self.folder / f"{name}.yaml"
            path.write_text(BLOBS.replace("name: blobs-perceptron", f"name: {name}").replace("steps: 8", "steps: 40") + more)
            self.recipes.append(path)

    def compare(self, *words, recipes=None, **more):
        return self.taxon("compare", *(recipes or self.recipes), "--out", "out", *words, **more)

    def rows(self):
        with open(self.folder / "out/compare.csv", newline="") as file:
            return {row["system"]: row for row in csv.DictReader(file)}


class Compare(CompareTest):
    def test_recipes_stand_side_by_side_and_what_is_complete_is_kept(self):
        done = self.compare("--target-accuracy", "0.5")
        for words in (*VARIANTS, "accuracy", "time to target", "scheduling", "measured", "report.html"):
            self.assertIn(words, done.stdout)
        rows = self.rows()
        self.assertEqual(list(rows), list(VARIANTS))
        self.assertEqual(rows["sharded"]["optimisation"], "sharded")
        self.assertEqual(rows["delayed"]["scheduling"], "synchronous, delay 1")
        self.assertEqual(rows["ring"]["communication"], "all-reduce (ring)")
        for name, row in rows.items():
            summary = self.summary(f"out/{name}")
            self.assertAlmostEqual(float(row["accuracy"]), summary["test_accuracy"])
            self.assertAlmostEqual(float(row["bytes_per_step"]), summary["bytes_sent_per_step"])
            self.assertEqual(row["failure"], "")
        with open(self.folder / "out/curves.csv", newline="") as file:
            points = [point for point in csv.DictReader(file) if point["system"] == "ring"]
        self.assertGreaterEqual(len(points), 10)
        for key in ("samples", "seconds", "bytes"):
            values = [float(point[key]) for point in points]
            self.assertEqual(values, sorted(values), key)
            self.assertGreater(values[0], 0, key)
        self.assertAlmostEqual(float(points[-1]["accuracy"]), self.summary("out/ring")["test_accuracy"])
        for chart in sorted((self.folder / "out/charts").iterdir()):
            self.assertEqual(xml.etree.ElementTree.parse(chart).getroot().tag, "{http://www.w3.org/2000/svg}svg", chart)
        self.assertTrue((self.folder / "out/charts/accuracy-time.svg").exists())
        page = charts_of((self.folder / "out/report.html").read_text())
        for measure in ("accuracy", "loss"):
            for against in ("time", "samples", "bytes"):
                self.assertEqual(page.charts[f"{measure}-{against}"]["line"], 3)
        self.assertEqual(page.charts["step-time"]["bar"], 3 * 3 + 3)
        for system in range(3):
            # One that others held up is cut at some times the shortest, and shows fewer of its three steps.
            self.assertGreaterEqual(page.charts[f"timeline-{system}"]["compute"], 2)
            self.assertGreater(page.charts[f"timeline-{system}"]["talk"], 1)
        # Again, with one more: nothing that is complete is trained anew.
        before = {name: (self.folder / f"out/{name}/summary.json").stat().st_mtime_ns for name in VARIANTS}
        more = self.folder / "more.yaml"
        more.write_text(self.recipes[0].read_text().replace("name: ring", "name: more"))
        again = self.compare(recipes=[*self.recipes, more])
        self.assertEqual(again.stderr.count("kept"), 3)
        self.assertEqual(list(self.rows()), [*VARIANTS, "more"])
        for name, time in before.items():
            self.assertEqual((self.folder / f"out/{name}/summary.json").stat().st_mtime_ns, time)

    def test_seeds_give_errors_and_limits_hold(self):
        done = self.compare("--seeds", "1,2,3", "--samples", "240", recipes=self.recipes[:2])
        self.assertIn("±", done.stdout)
        row = self.rows()["ring"]
        accuracies = [self.summary(f"out/ring/seed-{seed}")["test_accuracy"] for seed in (1, 2, 3)]
        self.assertAlmostEqual(float(row["accuracy"]), sum(accuracies) / 3)
        self.assertIn(self.summary("out/ring/seed-2")["samples"], range(240, 240 + 24))  # whole steps
        self.assertEqual(self.summary("out/ring/seed-2")["seed"], 2)
        self.taxon("compare", self.recipes[0], "--out", "timed", "--seconds", "0.2", "--set", "length.steps=1000000")
        summary = self.summary("timed/ring")
        self.assertLess(summary["steps"], 1000000)
        self.assertFalse(summary["interrupted"])
        self.assertIsNotNone(summary["test_accuracy"])

    def test_slower_hosts_are_emulated_and_change_no_synchronous_result(self):
        hashes = {}
        for slow in ("[]", "[{rank: 1, slowdown: 50}]"):
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            done = self.compare("--set", "emulation.cores=0.1", "--set", f"emulation.slow={slow}", recipes=self.recipes[:1])
            self.assertIn("emulated", done.stdout)
            self.assertEqual(self.rows()["ring"]["origin"], "emulated")
            self.assertIn("each worker has 0.1 cores", (self.folder / "out/report.html").read_text())
            self.assertIn("emulated hosts", (self.folder / "out/ring/log.txt").read_text())
            hashes[slow] = self.summary("out/ring")["parameter_hash"]
        self.assertEqual(len(set(hashes.values())), 1)
        refused = self.compare("--simulate", "--cluster", ROOT / "clusters/ethernet-1g.yaml", "--set", "emulation.cores=0.1", code=2)
        self.assertIn("cluster file", refused.stderr)

    def test_a_run_that_fails_is_a_row_that_says_why(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/.comparison").write_text("measured\n")
        (self.folder / "out/sharded").write_text("in the way of a folder")
        done = self.compare(code=73)
        self.assertIn("sharded failed", done.stdout)
        rows = self.rows()
        self.assertIn("sharded", rows["sharded"]["failure"])
        self.assertNotEqual(rows["delayed"]["accuracy"], "")

    def test_a_run_that_lost_a_worker_is_complete(self):
        servers = ("--set", "exchange.levels=[{topology: servers, staleness: -1, apply: 1}]", "--set", "mesh.servers=1", "--set", "optimiser.rule=sgd")
        words = ("compare", self.recipes[0], "--out", "out", "--workers", 4, *servers, "--set", "length.steps=30000")
        process = self.start(*words)
        self.wait_until(lambda: self.steps_seen("out/ring") >= 20, "training")
        os.kill(self.workers("out/ring")[2], signal.SIGKILL)
        self.assertEqual(process.wait(HANGS), 0, self.log())
        self.assertIn("ring lost rank 2 on the way", (self.folder / "out/report.html").read_text())
        self.assertEqual(self.rows()["ring"]["failure"], "")
        self.assertIn("kept", self.taxon(*words).stderr)
        self.assertIn("ring lost rank 2 on the way", (self.folder / "out/report.html").read_text())

    def test_ctrl_c_ends_in_order_and_the_same_command_goes_on(self):
        words = ("compare", *self.recipes, "--out", "out", "--set", "length.steps=4000", "--set", "report.metrics_steps=5")
        process = self.start(*words)
        self.wait_until(lambda: self.steps_seen("out/sharded") >= 5, "the second run")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(HANGS), 143, self.log())
        self.assertIn("goes on", self.log())
        self.assertEqual(self.rows()["sharded"]["accuracy"], "")
        again = self.taxon(*words)
        self.assertEqual(again.stderr.count("kept"), 1)
        for name in VARIANTS:
            self.assertEqual(self.summary(f"out/{name}")["steps"], 4000)
            self.assertFalse(self.summary(f"out/{name}")["interrupted"])

    def test_simulated_steps_are_compared_without_training(self):
        cluster = ROOT / "clusters/ethernet-1g.yaml"
        done = self.taxon("compare", *self.recipes, "--out", "out", "--simulate", "--cluster", cluster, "--workers", "4")
        self.assertIn("simulated", done.stdout)
        rows = self.rows()
        self.assertEqual(list(rows), list(VARIANTS))
        for row in rows.values():
            self.assertGreater(float(row["seconds_per_step"]), 0)
            self.assertGreater(float(row["bytes_per_step"]), 0)
            self.assertEqual(row["accuracy"], "")
            self.assertEqual(row["origin"], "simulated")
        page = charts_of((self.folder / "out/report.html").read_text())
        self.assertIn("step-time", page.charts)
        self.assertNotIn("loss-time", page.charts)

    def test_a_simulated_comparison_ends_with_the_code_of_the_first_that_fails(self):
        cluster = self.folder / "poor.yaml"  # its hosts' memory holds no rank
        cluster.write_text((ROOT / "clusters/ethernet-1g.yaml").read_text().replace("memory: 64GiB", "memory: 1KiB"))
        self.taxon("compare", *self.recipes, "--out", "out", "--simulate", "--cluster", cluster, "--workers", "4", code=72)
        self.assertEqual(list(self.rows()), list(VARIANTS))


class CompareInBrowser(CompareTest):
    BROWSER = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)

    def browse(self, page, size="800,600"):
        return subprocess.run([self.BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={size}",
                               f"--user-data-dir={self.folder}/profile", "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
                              capture_output=True, text=True, timeout=HANGS, env=clean_environment(HOME=self.folder), stdin=subprocess.DEVNULL)

    @unittest.skipUnless(BROWSER, "chromium is not installed (tools/install-packages chromium)")
    def test_tables_scroll_on_a_phone(self):
        long = self.folder / "long.yaml"
        long.write_text(re.sub("name: .*", "name: a-system-with-quite-a-long-name-for-a-phone", self.recipes[0].read_text(), count=1))
        self.compare(recipes=[self.recipes[1], long])
        look = ('<script>onload = () => { for (const wide of document.querySelectorAll(".wide")) { wide.scrollLeft = 1e6; '
                'const row = wide.querySelector("tbody tr"), last = row.lastElementChild.getBoundingClientRect(), '
                'head = row.firstElementChild.getBoundingClientRect(), caption = wide.querySelector("caption span").getBoundingClientRect(); '
                'const room = innerWidth - head.right; '
                'wide.dataset.seen = wide.scrollLeft > 0 && last.right <= innerWidth + 1 && head.left >= 0 && room > innerWidth / 2 '
                '&& caption.left >= 0 && caption.right <= innerWidth; } '
                'document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth; }</script>')
        page = self.folder / "phone.html"
        page.write_text((self.folder / "out/report.html").read_text().replace("</body>", look + "</body>"))
        result = self.browse(page, "360,800")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(re.findall(r'data-seen="(\w+)"', result.stdout), ["true", "true"])
        self.assertIn('data-wide="false"', result.stdout)

    @unittest.skipUnless(BROWSER, "chromium is not installed (tools/install-packages chromium)")
    def test_every_chart_has_its_curves(self):
        self.compare("--target-accuracy", "50", recipes=self.recipes[:2])
        # What the browser made of the page, and what its script did when the second heading was pressed twice.
        report = self.folder / "out/report.html"
        press = ('<script>onload = () => { const table = document.querySelector("table.sorts"); for (let i = 0; i < 2; ++i) '
                 'table.tHead.rows[0].cells[0].querySelector("button").click(); '
                 'const box = document.querySelector("#accuracy-time .line").getBoundingClientRect(); '
                 'document.body.dataset.drawn = box.width > 50; document.body.dataset.wide = '
                 'document.documentElement.scrollWidth > innerWidth; '
                 'document.body.dataset.errors = [...document.querySelectorAll("parsererror")].length; }</script>')
        pressed = self.folder / "pressed.html"
        pressed.write_text(report.read_text().replace("</body>", press + "</body>"))
        result = self.browse(pressed)
        self.assertEqual(result.returncode, 0, result.stderr)
        page = charts_of(result.stdout)
        for measure in ("accuracy", "loss"):
            for against in ("time", "samples", "bytes"):
                chart = page.charts[f"{measure}-{against}"]
                self.assertEqual(chart["line"], 2)
                self.assertGreaterEqual(chart["mark"], 2 * 10)
        self.assertIn("timeline-1", page.charts)
        self.assertIn('data-drawn="true"', result.stdout)
        self.assertIn('data-wide="false"', result.stdout)
        self.assertIn('data-errors="0"', result.stdout)
        self.assertIn('aria-sort="descending"', result.stdout)
        body = result.stdout[result.stdout.index("<tbody>"):]
        self.assertLess(body.index(">sharded<"), body.index(">ring<"))


class WrongCompare(CompareTest):
    BESIDE_OTHERS = True

    def test_everything_that_is_wrong_is_listed_at_once_and_nothing_starts(self):
        self.recipes[0].write_text(self.recipes[0].read_text().replace("base: 0.2", "bas: 0.2"))
        self.recipes[1].write_text(self.recipes[1].read_text().replace("topology: sharded", "topology: shard"))
        twin = self.folder / "twin.yaml"
        twin.write_text(self.recipes[2].read_text())
        done = self.compare("nowhere.yaml", twin, "--seconds", "3", "--samples", "100", "--cluster", "c.yaml", "--seeds", "4,4",
                            code=2)
        for words in ("nowhere.yaml", "learning_rate.bas", "topology", "same name", "--seconds and --samples", "--cluster needs",
                      "seed twice"):
            self.assertIn(words, done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_a_folder_of_something_else_is_refused(self):
        self.compare(recipes=self.recipes[:1])
        said = self.compare("--set", "learning_rate.base=0.3", recipes=self.recipes[:1], code=2).stderr
        self.assertIn("another plan", said)
        said = self.compare("--workers", "3", recipes=self.recipes[:1], code=2).stderr
        self.assertIn("2 workers", said)
        said = self.compare("--simulate", "--cluster", ROOT / "clusters/ethernet-1g.yaml", recipes=self.recipes[:1], code=2).stderr
        self.assertIn("another comparison", said)
        said = self.taxon("compare", self.recipes[0], "--out", "out/ring", code=2).stderr
        self.assertIn("a run of its own", said)
        (self.folder / "mine").mkdir()
        (self.folder / "mine/report.html").write_text("mine")
        said = self.taxon("compare", self.recipes[0], "--out", "mine", code=2).stderr
        self.assertIn("mine is no comparison's, and not empty (report.html)", said)
        self.assertEqual((self.folder / "mine/report.html").read_text(), "mine")

    def test_different_data_do_not_compare(self):
        self.recipes[1].write_text(self.recipes[1].read_text().replace("train_limit: 100", "train_limit: 90"))
        self.assertIn("different data", self.compare(code=2).stderr)


if __name__ == "__main__":
    unittest.main()
