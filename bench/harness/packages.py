"""Installs the Debian packages that a comparison needs and that are missing."""
import os
import shutil
import subprocess
import sys

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
