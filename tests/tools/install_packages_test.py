"""tools/install-packages installs what is missing, and only that, whatever dpkg has heard of. Runs with a dpkg and an apt-get of its
own, so that nothing here changes."""

import os
import pathlib
import stat
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "install-packages"
STATES = {"there": "installed", "there-twice": "installed\\ninstalled", "heard-of": "not-installed", "removed": "config-files"}


class InstallPackages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        cases = "".join(f'{name}) printf "{state}\\n" ;;\n' for name, state in STATES.items())
        self.program("dpkg-query", f'for last; do :; done\ncase $last in\n{cases}*) exit 1 ;;\nesac\n')
        self.program("apt-get", f'echo "$@" >> {self.folder}/asked\n')
        self.program("sudo", 'exec "$@"\n')

    def program(self, name, text):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def asked_for(self, *packages):
        subprocess.run([TOOL, *packages], check=True, env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}, stderr=subprocess.DEVNULL)
        asked = self.folder / "asked"
        installs = [line.split() for line in asked.read_text().splitlines() if " install " in line] if asked.exists() else []
        return [word for words in installs for word in words[words.index("--no-install-recommends") + 1:]]

    def test_nothing_where_all_are_there(self):
        self.assertEqual(self.asked_for("there", "there-twice"), [])

    def test_what_was_only_heard_of_or_removed_or_is_unknown(self):
        self.assertEqual(self.asked_for("there", "heard-of", "removed", "unknown"), ["heard-of", "removed", "unknown"])


if __name__ == "__main__":
    unittest.main()
