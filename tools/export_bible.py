#!/usr/bin/env python3
"""Writes the King James Bible (Debian's bible-kjv and bible-kjv-text) as plain text that data set `text` reads:
every 20th chapter in FOLDER/test.txt, all others in FOLDER/train.txt."""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

VERSES = "gen1:1-rev22:21"
HEADING = re.compile(r"^(?=(?:\d )?[A-Z][A-Za-z ]* \d+$)", re.MULTILINE)


def chapters(text):
    """The chapters, each with its heading. Lines of a verse are one, and begin with its number."""
    found = [part.strip() for part in HEADING.split(text) if part.strip()]
    return [re.sub(r"\n +", "\n", re.sub(r"\n\n+", "\n", chapter)) + "\n\n" for chapter in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--every", type=int, default=20, metavar="N", help="every Nth chapter is for testing (20)")
    arguments = parser.parse_args()
    if arguments.every < 2:
        parser.error("--every: at least 2, or nothing is left to train on")
    if not shutil.which("bible"):
        sys.exit("there is no program `bible`: apt-get install bible-kjv bible-kjv-text")
    printed = subprocess.run(["bible", "-l0", VERSES], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    parts = chapters(printed)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, mine in (("train", lambda i: i % arguments.every != 0), ("test", lambda i: i % arguments.every == 0)):
        text = "".join(part for i, part in enumerate(parts, 1) if mine(i))
        (arguments.folder / f"{name}.txt").write_text(text)
        print(f"{arguments.folder / name}.txt: {len(text)} bytes")
    print(f"{len(parts)} chapters")


if __name__ == "__main__":
    main()
