"""Builds the programs that a benchmark starts."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# What configuring takes beyond tools/packages.txt, whatever is built then.
PACKAGES = ("libopenmpi-dev", "openmpi-bin", "libgloo-dev")


class BuildFailed(Exception):
    pass


def build(build_dir, targets):
    configure = ["cmake", "-S", ROOT, "--preset", "release", "-B", build_dir, "-DTAXON_WITH_BENCH=ON"]
    for command in (configure, ["cmake", "--build", build_dir, "--target", *targets]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
        if done.returncode != 0:
            print(done.stdout[-6000:], file=sys.stderr)
            raise BuildFailed(f"failed: {' '.join(command)}")


def program(build_dir, name):
    return os.path.join(build_dir, "bin", name)
