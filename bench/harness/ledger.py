"""The figures that the tree keeps: bench/results/NAME.json holds the rows of `bench/run NAME --full --record`, each with the commit, machine and date
of the run that it comes from."""
import hashlib
import json
import os
import subprocess

from harness.build import ROOT
from harness.rows import Row, is_claim, is_known, judge, write_json

RESULTS = os.path.join(ROOT, "bench", "results")
# How a row's code compares with the tree's.
CURRENT, OLDER, UNKNOWN = "current", "older", "unknown"
# What keeps rows and makes tables of them measures nothing; nobody measures the search for faults.
UNMEASURED = [f":(exclude){path}" for path in (*(f"bench/harness/{name}.py" for name in ("imports", "ledger", "rows", "tables")), "src/faults",
                                               "apps/taxon/commands/faults.cc", "apps/taxon/commands/faults.h")]
# Calibrates, profiles and simulates, and is measured by those benchmarks that name it: a run asks it before its start at most whether layers can be divided.
PLANNER = "src/planner"


class NotKept(Exception):
    """Why rows can't become figures of the tree."""


def path_of(bench, folder=RESULTS):
    return os.path.join(folder, bench + ".json")


def read(bench, folder=RESULTS):
    """Rows, oldest place first; none if nothing was kept yet."""
    path = path_of(bench, folder)
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [Row(**line) for line in json.load(file)]


def merged(kept, new, partial):
    """`new` in place of rows with the same key. Rows that a whole run no longer has are gone; a partial one leaves what it did not measure."""
    if not partial:
        return list(new)
    fresh = {row.key(): row for row in new}
    places = [fresh.pop(row.key(), row) for row in kept]
    return [*places, *fresh.values()]


def refusal(rows):
    """Why they can't be kept, or None."""
    for row in rows:
        run = row.settings.get("run", {})
        if run.get("mode") != "full" or run.get("peers_only"):
            return "only whole --full runs are kept"
        if not is_known(run.get("commit")):
            return "the commit that was measured is not known: commit first"
        if row.verified is False:
            return f"{row.case}: not verified"
    return None


def keep(bench, new, partial, claims=None, folder=RESULTS):
    """Writes the rows beside those that are kept already, and what `claims` says of all of them together. Throws NotKept."""
    why = refusal(new) if new else "nothing was measured"
    if why:
        raise NotKept(f"{bench}: {why}")
    rows = merged(read(bench, folder), new, partial)
    judged = judge(claims, rows)
    for one in judged:
        one.settings["run"] = oldest_run([row for row in rows if not is_claim(row)])
    os.makedirs(folder, exist_ok=True)
    write_json(path_of(bench, folder), merged(rows, judged, True))


def oldest_run(rows):
    """The run of the oldest code among theirs: what is said of all of them is not younger."""
    runs = {run.get("commit"): run for run in (row.settings["run"] for row in rows)}

    def ancestors(commit):
        counted = git("rev-list", "--count", commit or "none", "--")
        return int(counted.stdout) if counted.returncode == 0 else -1

    return runs[min(runs, key=ancestors)] if len(runs) > 1 else rows[-1].settings["run"]


def git(*words):
    try:
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, *words], capture_output=True, text=True)
    except FileNotFoundError:  # no git is no history
        return subprocess.CompletedProcess(words, 127)


def measured(paths):
    """As git's pathspecs, which leave out what is not measured."""
    return [*paths, *UNMEASURED, *([] if PLANNER in paths else [f":(exclude){PLANNER}"])]


def version_of(paths):
    """Of what `paths` have in the index that is measured: equal for equal content. None without a history."""
    listed = git("ls-files", "--stage", "--", *measured(paths))
    return hashlib.sha256(listed.stdout.encode()).hexdigest()[:12] if listed.returncode == 0 and listed.stdout else None


def age(commit, paths):
    """Whether what `paths` say has changed since `commit`. UNKNOWN where the history is cut off before it, or there is none."""
    if not commit or git("cat-file", "-e", commit + "^{commit}").returncode != 0:
        return UNKNOWN
    if git("merge-base", "--is-ancestor", commit, "HEAD").returncode != 0:
        return UNKNOWN
    return OLDER if git("diff", "--quiet", commit, "HEAD", "--", *measured(paths)).returncode else CURRENT
