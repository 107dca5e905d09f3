"""The test cluster (tools/lab) as benchmarks use it."""
import json
import os
import subprocess

from harness.build import ROOT
from harness.side import interrupts_wait

LAB = os.path.join(ROOT, "tools", "lab")


class NoCluster(Exception):
    pass


class Cluster:
    """A lab that lives as long as the `with` block."""

    def __init__(self, hosts, rate, cores_per_host=None, delay_ms=0, relay=None, cpu_period_ms=None):
        """`relay`: the program that delays, where something is to. `cpu_period_ms`: of the quota, if not the lab's own."""
        self.name = f"bench-{os.getpid()}"
        self.rate = rate
        command = [LAB, "up", "--name", self.name, "--hosts", str(hosts), "--rate", rate, "--json"]
        if cores_per_host:
            command += ["--cores-per-host", str(cores_per_host)]
        if cpu_period_ms:
            command += ["--cpu-period-ms", str(cpu_period_ms)]
        if delay_ms:
            command += ["--delay-ms", str(delay_ms), "--relay", relay]
        self.addresses = [host["address"] for host in json.loads(self.up(command))["hosts"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down().check_returncode()

    def up(self, command):
        """What it answers. It has a session of its own, so that a terminal's interrupt reaches it through us alone, and it is done when we go on."""
        lab = None
        try:
            with interrupts_wait():
                lab = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
            answer, errors = lab.communicate()
        except BaseException:
            if lab:
                with interrupts_wait():
                    lab.terminate()
                    lab.communicate()
                    self.down()  # it may have stood already
            raise
        if lab.returncode != 0:
            raise NoCluster(errors.strip())
        return answer

    def down(self):
        """To its end, however often somebody interrupts: it frees the machine's processor quotas too."""
        with interrupts_wait():
            return subprocess.run([LAB, "down", "--name", self.name], start_new_session=True)

    def command(self, host, command):
        return [LAB, "exec", "--name", self.name, str(host), "--", *command]
