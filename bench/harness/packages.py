"""Installs the Debian packages that a comparison needs and that are missing."""
import os
import shutil
import subprocess
import sys
import tempfile

from harness.build import ROOT


class MissingPackages(Exception):
    pass


def installed(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", package], capture_output=True, text=True)
    return done.stdout.strip() == "install ok installed"


def ensure_build_tools():
    """What Taxon itself is built with."""
    if subprocess.run([os.path.join(ROOT, "tools", "install-packages")], stdout=sys.stderr).returncode != 0:
        raise MissingPackages("tools/install-packages failed")


def ensure_python_torch(release):
    """A folder for PYTHONPATH with PyTorch of that release, out of the wheel whose libtorch the programs have (tools/fetch-torch) and what it requires;
    kept beside that."""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        ensure(("python3-pip",))
    torch = os.path.join(ROOT, "build", "torch")
    fetched = subprocess.run([os.path.join(ROOT, "tools", "fetch-torch"), release, torch], stdout=subprocess.PIPE, text=True)
    if fetched.returncode != 0:
        raise MissingPackages(f"no torch {release}")
    version = fetched.stdout.strip()
    folder = os.path.join(torch, version, "python")
    if os.path.exists(folder):
        return folder
    print(f"installing torch {version} and what it requires into {folder}: some 5 GB", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=torch, prefix=".partial-") as partial:
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-cache-dir", "--no-compile", "--only-binary", ":all:",
               "--find-links", os.path.join(torch, version, "wheels"), "--target", os.path.join(partial, "python"), f"torch=={version}"]
        if subprocess.run(pip, stdout=sys.stderr, env={**os.environ, "TMPDIR": partial}).returncode != 0:
            raise MissingPackages(f"pip could not install torch {version} into a folder")
        os.rename(os.path.join(partial, "python"), folder)
    return folder


def ensure(packages):
    missing = [package for package in packages if not installed(package)]
    if not missing:
        return
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if root and not shutil.which("sudo"):
        raise MissingPackages(f"as root: apt-get install {' '.join(missing)}")
    print(f"installing {' '.join(missing)}", file=sys.stderr)
    install = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", *missing]
    if subprocess.run(install, stdout=subprocess.DEVNULL).returncode != 0:
        subprocess.run([*root, "apt-get", "update", "-q"], stdout=subprocess.DEVNULL)
        if subprocess.run(install, stdout=subprocess.DEVNULL).returncode != 0:
            raise MissingPackages(f"apt-get could not install {' '.join(missing)}")
