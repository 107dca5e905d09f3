"""The test cluster (tools/lab) as benchmarks use it."""
import json
import os
import subprocess

from harness.build import ROOT

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
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise NoCluster(done.stderr.strip())
        hosts = json.loads(done.stdout)["hosts"]
        self.addresses = [host["address"] for host in hosts]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([LAB, "down", "--name", self.name], check=True)

    def command(self, host, command):
        return [LAB, "exec", "--name", self.name, str(host), "--", *command]
