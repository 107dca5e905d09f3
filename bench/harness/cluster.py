"""The test cluster (tools/lab) as benchmarks use it."""
import json
import os
import subprocess

from harness.build import ROOT

LAB = os.path.join(ROOT, "tools", "lab")
NO_PRIVILEGE = 77


class NoCluster(Exception):
    pass


class Cluster:
    """A lab that lives as long as the `with` block."""

    def __init__(self, hosts, rate, cores_per_host=None):
        self.name = f"bench-{os.getpid()}"
        self.rate = rate
        command = [LAB, "up", "--name", self.name, "--hosts", str(hosts), "--rate", rate, "--json"]
        if cores_per_host:
            command += ["--cores-per-host", str(cores_per_host)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise NoCluster(done.stderr.strip())
        hosts = json.loads(done.stdout)["hosts"]
        self.addresses = [host["address"] for host in hosts]
        self.groups = [host["cgroup"] for host in hosts]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([LAB, "down", "--name", self.name], check=True)

    def set_cores(self, host, cores):
        """From now on. REQUIRES: the cluster was made with a number of cores."""
        folder = self.groups[host]
        single = os.path.join(folder, "cpu.max")
        if os.path.exists(single):
            with open(single) as file:
                period = int(file.read().split()[1])
            with open(single, "w") as file:
                file.write(f"{int(cores * period)} {period}")
            return
        with open(os.path.join(folder, "cpu.cfs_period_us")) as file:
            period = int(file.read())
        with open(os.path.join(folder, "cpu.cfs_quota_us"), "w") as file:
            file.write(str(int(cores * period)))

    def command(self, host, command):
        return [LAB, "exec", "--name", self.name, str(host), "--", *command]
