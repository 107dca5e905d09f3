"""Builds the programs that a benchmark starts."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# What configuring takes beyond tools/packages.txt, whatever is built then.
PACKAGES = ("libopenmpi-dev", "openmpi-bin", "libgloo-dev")


class BuildFailed(Exception):
    pass


def beside(build_dir, release):
    """Where the programs with the libtorch of that release of PyPI lie; without one, those with the system's."""
    return f"{build_dir}-torch-{release}" if release else build_dir


def build(build_dir, targets, release=""):
    configure = ["cmake", "-S", ROOT, "--preset", "release", "-B", beside(build_dir, release), "-DTAXON_WITH_BENCH=ON", f"-DTAXON_TORCH={release}"]
    build_dir = beside(build_dir, release)
    for command in (configure, ["cmake", "--build", build_dir, "--target", *targets])[:2 if targets else 1]:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
        if done.returncode != 0:
            print(done.stdout[-6000:], file=sys.stderr)
            raise BuildFailed(f"failed: {' '.join(command)}")


def program(build_dir, name):
    return os.path.join(build_dir, "bin", name)


def kernels_of(build_dir):
    """What OpenBLAS has to be told, as Taxon tells it, so that no side multiplies with kernels that are older than the processor."""
    kernels = version_of(build_dir)["OPENBLAS_CORETYPE"] if os.path.exists(program(build_dir, "taxon")) else "not set"
    return {} if kernels == "not set" else {"OPENBLAS_CORETYPE": kernels}


def version_of(build_dir):
    """What the program says of itself: its libtorch, and the libraries that computes with."""
    done = subprocess.run([program(build_dir, "taxon"), "--version", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
