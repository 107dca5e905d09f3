#!/usr/bin/env python3
"""Tests of tools/lab. Skipped (exit 77) where the kernel does not give the namespaces that it needs."""
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

LAB = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "lab")
NAME = f"test-{os.getpid()}"
SKIPPED = 77
HANGS = 300  # seconds that a test waits for what never comes
QUOTA_SLICE = "/proc/sys/kernel/sched_cfs_bandwidth_slice_us"


def lab(*args, **kwargs):
    return subprocess.run([LAB, *args], capture_output=True, text=True, timeout=HANGS, **kwargs)


def in_host(host, *command, name=NAME):
    return lab("exec", "--name", name, str(host), "--", *command)


def leftovers(name):
    """Processes, namespaces and folders that still carry the lab's name."""
    found = [f for f in (f"/run/taxon-lab/{name}", f"/sys/fs/cgroup/taxon-lab-{name}", f"/sys/fs/cgroup/cpu/taxon-lab-{name}")
             if os.path.exists(f)]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().startswith(f"taxon-lab:{name}:".encode()):
                    found.append(pid)
        except OSError:
            continue
    return found


def wait_until_nothing_is_left(name):
    deadline = time.monotonic() + HANGS
    while leftovers(name) and time.monotonic() < deadline:
        time.sleep(0.01)
    return leftovers(name)


class RunningLab(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.namespaces_before = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
        up = lab("up", "--name", NAME, "--hosts", "3", "--rate", "100mbit", "--cores-per-host", "0.5", "--json")
        if up.returncode != 0:
            raise AssertionError(up.stderr)
        cls.hosts = json.loads(up.stdout)["hosts"]

    @classmethod
    def tearDownClass(cls):
        lab("down", "--name", NAME)

    def test_hosts_share_no_namespace_with_each_other_or_with_the_machine(self):
        for kind in ("ipc", "uts", "net", "pid", "mnt"):
            links = {os.readlink(f"/proc/self/ns/{kind}")}
            links |= {in_host(i, "readlink", f"/proc/self/ns/{kind}").stdout.strip() for i in range(3)}
            self.assertEqual(len(links), 4, kind)

    def test_shared_memory_of_one_host_is_unseen_by_another(self):
        self.assertEqual(in_host(0, "touch", "/dev/shm/mark").returncode, 0)
        self.assertEqual(in_host(0, "test", "-e", "/dev/shm/mark").returncode, 0)
        self.assertNotEqual(in_host(1, "test", "-e", "/dev/shm/mark").returncode, 0)
        self.assertFalse(os.path.exists("/dev/shm/mark"))

    def test_hosts_have_names_that_resolve_everywhere(self):
        self.assertEqual(in_host(2, "hostname").stdout.strip(), "host2")
        for host in self.hosts:
            self.assertIn(host["address"], in_host("host1", "getent", "hosts", host["name"]).stdout)

    def test_bytes_travel_between_hosts_at_the_link_rate(self):
        size = 4_000_000  # 0.32 s at 100 Mbit/s
        receive = ("import socket\ns = socket.create_server(('', 7000)); print('ready', flush=True)\nc, _ = s.accept()\n"
                   "n = 0\nwhile b := c.recv(1 << 16): n += len(b)\n"
                   "c.sendall(b'!'); print(n)")
        # The sender's time: a receiver that is late finds bytes that were on their way before its clock began.
        send = (f"import socket, time\nc = socket.create_connection(('host1', 7000)); t = time.monotonic(); c.sendall(bytes({size}))\n"
                "c.shutdown(socket.SHUT_WR); c.recv(1); print(time.monotonic() - t)")
        receiver = subprocess.Popen([LAB, "exec", "--name", NAME, "1", "--", sys.executable, "-c", receive],
                                    stdout=subprocess.PIPE, text=True)
        receiver.stdout.readline()
        sender = in_host(0, sys.executable, "-c", send)
        self.assertEqual(sender.returncode, 0)
        self.assertEqual(int(receiver.communicate(timeout=HANGS)[0]), size)
        self.assertGreater(float(sender.stdout), 0.9 * size * 8 / 100e6)  # shaped: never faster than the link

    def test_connections_of_every_host_use_reno_and_the_machines_own_do_as_before(self):
        path = "/proc/sys/net/ipv4/tcp_congestion_control"
        before = open(path).read()
        for host in range(3):
            self.assertEqual(in_host(host, "cat", path).stdout, "reno\n")
        self.assertEqual(open(path).read(), before)

    def test_processes_of_a_host_carry_its_quota(self):
        group = self.hosts[0]["cgroup"]
        self.assertIn(os.path.join(*group.split("/")[-2:]), in_host(0, "cat", "/proc/self/cgroup").stdout)

    def test_quotas_are_dealt_out_finely_while_a_lab_stands(self):
        if os.path.exists(QUOTA_SLICE):
            self.assertLessEqual(int(open(QUOTA_SLICE).read()), 500)

    def test_exit_code_environment_and_folder_pass_through(self):
        self.assertEqual(in_host(0, "sh", "-c", "exit 37").returncode, 37)
        done = lab("exec", "--name", NAME, "0", "--", "sh", "-c", "echo $MARK; pwd", env={**os.environ, "MARK": "blue"}, cwd="/usr")
        self.assertEqual(done.stdout, "blue\n/usr\n")

    def test_errors_of_exec_have_codes_of_their_own(self):
        self.assertEqual(in_host(0, "/no/such/program").returncode, 127)
        self.assertEqual(in_host(0, "/etc").returncode, 126)
        self.assertEqual(in_host(9, "true").returncode, 125)
        self.assertEqual(in_host(0, "true", name="no-such-lab").returncode, 125)

    def test_signals_reach_the_command_once_and_its_death_shows(self):
        script = "n=0; trap 'n=$((n+1))' USR1; trap 'echo $n; exit 5' TERM; echo ready; while :; do sleep 0.01; done"
        process = subprocess.Popen([LAB, "exec", "--name", NAME, "0", "--", "sh", "-c", script], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, text=True, start_new_session=True)
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGUSR1)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.communicate(timeout=HANGS)[0], "1\n")
        self.assertEqual(process.returncode, 5)
        self.assertEqual(in_host(0, "sh", "-c", "kill -KILL $$").returncode, -signal.SIGKILL)

    def test_a_killed_exec_takes_its_command_along(self):
        process = subprocess.Popen([LAB, "exec", "--name", NAME, "0", "--", "sh", "-c", "echo $$; exec sleep 1000"],
                                   stdout=subprocess.PIPE, text=True)
        pid = process.stdout.readline().strip()
        process.kill()
        process.communicate()
        deadline = time.monotonic() + HANGS
        while in_host(0, "kill", "-0", pid).returncode == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertNotEqual(in_host(0, "kill", "-0", pid).returncode, 0)

    def test_a_name_is_taken_once(self):
        again = lab("up", "--name", NAME, "--hosts", "1", "--rate", "1gbit")
        self.assertEqual(again.returncode, 1)
        self.assertIn("exists already", again.stderr)
        self.assertTrue(json.loads(lab("status", "--name", NAME, "--json").stdout)["alive"])

    def test_the_machine_is_left_as_it_was(self):
        self.assertNotIn("bridge0", os.listdir("/sys/class/net"))
        now = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
        self.assertEqual(now, self.namespaces_before)


class ComingAndGoing(unittest.TestCase):
    name = NAME + "-b"

    def tearDown(self):
        lab("down", "--name", self.name)

    def test_down_ends_what_runs_inside_and_may_be_repeated(self):
        self.assertEqual(lab("up", "--name", self.name, "--hosts", "2", "--rate", "1gbit").returncode, 0)
        process = subprocess.Popen([LAB, "exec", "--name", self.name, "1", "--", "sh", "-c", "echo up; sleep 1000"],
                                   stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        for _ in range(2):
            self.assertEqual(lab("down", "--name", self.name).returncode, 0)
        process.communicate(timeout=HANGS)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertEqual(leftovers(self.name), [])

    def test_two_labs_coexist(self):
        other = self.name + "2"
        for name in (self.name, other):
            self.assertEqual(lab("up", "--name", name, "--hosts", "1", "--rate", "1gbit").returncode, 0)
        self.assertEqual(lab("down", "--name", other).returncode, 0)
        self.assertEqual(in_host(0, "true", name=self.name).returncode, 0)

    @unittest.skipUnless(os.path.exists(QUOTA_SLICE), "this kernel's slices are fixed")
    def test_the_machines_own_slices_return_with_the_last_lab(self):
        if os.path.isdir("/run/taxon-lab"):
            self.skipTest("another lab stands")
        before = open(QUOTA_SLICE).read()
        other = self.name + "2"
        for name in (self.name, other):
            self.assertEqual(lab("up", "--name", name, "--hosts", "1", "--rate", "1gbit", "--cores-per-host", "0.5").returncode, 0)
        lab("down", "--name", other)
        self.assertLessEqual(int(open(QUOTA_SLICE).read()), 500)
        lab("down", "--name", self.name)
        self.assertEqual(open(QUOTA_SLICE).read(), before)

    def test_an_interrupted_up_leaves_nothing(self):
        for signum in (signal.SIGINT, signal.SIGTERM):
            for _ in range(2):
                process = subprocess.Popen([LAB, "up", "--name", self.name, "--hosts", "8", "--rate", "1gbit",
                                            "--cores-per-host", "0.5"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(random.uniform(0.05, 0.25))
                process.send_signal(signum)
                if process.wait(timeout=HANGS) == 0:  # it was done before the signal came
                    lab("down", "--name", self.name)
                self.assertEqual(wait_until_nothing_is_left(self.name), [])

    def test_a_killed_up_leaves_nothing_that_down_does_not_remove(self):
        process = subprocess.Popen([LAB, "up", "--name", self.name, "--hosts", "8", "--rate", "1gbit"],
                                   stdout=subprocess.DEVNULL)
        while process.poll() is None and not os.path.exists(f"/run/taxon-lab/{self.name}/state.json"):
            time.sleep(0.001)
        process.kill()
        process.wait()
        self.assertEqual(lab("down", "--name", self.name).returncode, 0)
        self.assertEqual(wait_until_nothing_is_left(self.name), [])


RELAY = os.environ.get("TAXON_LAB_RELAY", "")  # without one, what tools/lab finds

ECHO = """
import socket
server = socket.create_server(('', 7000))
print('ready', flush=True)
while True:
    connection, _ = server.accept()
    while got := connection.recv(1 << 16): connection.sendall(got)
"""
ROUND_TRIPS = """
import socket, time
connection = socket.create_connection(('host1', 7000))
for _ in range(9):
    begin = time.monotonic()
    connection.sendall(b'x')
    connection.recv(1)
    print(time.monotonic() - begin)
"""
# Numbered datagrams of many sizes, which nothing puts in order again.
COUNT = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
receiver.bind(('', 7001))
server = socket.create_server(('', 7001))
print('ready', flush=True)
numbers = [int(receiver.recv(1 << 16).split()[0]) for _ in range(400)]
print(numbers == list(range(400)))
"""
NUMBERS = """
import socket
socket.create_connection(('host2', 7001))  # from now on nothing waits for the other host's address
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(400): sender.sendto(b'%d ' % i + bytes(i % 7 * 200), ('host2', 7001))
"""


class LongPaths(unittest.TestCase):
    name = NAME + "-d"
    DELAY_MS = 15

    @classmethod
    def setUpClass(cls):
        relay = ["--relay", RELAY] if RELAY else []
        up = lab("up", "--name", cls.name, "--hosts", "3", "--rate", "1gbit", "--delay-ms", str(cls.DELAY_MS), "--json", *relay)
        if up.returncode != 0:
            raise AssertionError(up.stderr)
        cls.delay_ms = json.loads(up.stdout)["delay_ms"]

    @classmethod
    def tearDownClass(cls):
        lab("down", "--name", cls.name)

    def server(self, host, program):
        process = subprocess.Popen([LAB, "exec", "--name", self.name, str(host), "--", sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_connections_see_the_round_trip(self):
        self.assertEqual(self.delay_ms, self.DELAY_MS)
        self.server(1, ECHO)
        done = in_host(0, sys.executable, "-c", ROUND_TRIPS, name=self.name)
        times = [float(line) for line in done.stdout.split()]
        self.assertEqual(len(times), 9, done.stderr)
        self.assertGreater(min(times), 2e-3 * self.DELAY_MS)  # how much more, a busy machine decides

    def test_frames_keep_their_order(self):
        receiver = self.server(2, COUNT)
        self.assertEqual(in_host(0, sys.executable, "-c", NUMBERS, name=self.name).returncode, 0)
        self.assertEqual(receiver.communicate(timeout=30)[0], "True\n")

    def test_segments_of_64_kib_pass_whole_and_undamaged(self):
        size = 20_000_000
        receive = ("import hashlib, socket\ns = socket.create_server(('', 7002)); print('ready', flush=True)\nc, _ = s.accept()\n"
                   "h = hashlib.sha256()\nwhile b := c.recv(1 << 18): h.update(b)\nprint(h.hexdigest())\n"
                   "print(*next(l for l in open('/proc/net/dev') if 'eth0' in l).split()[1:3])")
        data = f"(b'%d' * 7 % tuple(range(7))) * {size // 7}"
        receiver = self.server(1, receive)
        send = f"import socket\nsocket.create_connection(('host1', 7002)).sendall({data})"
        self.assertEqual(in_host(0, sys.executable, "-c", send, name=self.name).returncode, 0)
        digest, received, packets = receiver.communicate(timeout=60)[0].split()
        self.assertEqual(digest, hashlib.sha256(eval(data)).hexdigest())
        self.assertGreater(int(received) / int(packets), 4000)  # larger than any frame of a wire

    def test_the_relay_ends_with_its_lab(self):
        name = self.name + "2"
        relay = ["--relay", RELAY] if RELAY else []
        self.assertEqual(lab("up", "--name", name, "--hosts", "2", "--rate", "1gbit", "--delay-ms", "1", *relay).returncode, 0)
        # The folder, two hosts, the hub, the relay; a child of one has its name until it runs a program of its own.
        deadline = time.monotonic() + HANGS
        while len(leftovers(name)) != 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(len(leftovers(name)), 5)
        self.assertEqual(lab("down", "--name", name).returncode, 0)
        self.assertEqual(wait_until_nothing_is_left(name), [])

    def test_a_relay_that_does_not_start_is_told_and_leaves_nothing(self):
        name = self.name + "3"
        up = lab("up", "--name", name, "--hosts", "2", "--rate", "1gbit", "--delay-ms", "1", "--relay", "/bin/false")
        self.assertEqual(up.returncode, 1)
        self.assertIn("the relay did not start", up.stderr)
        self.assertEqual(wait_until_nothing_is_left(name), [])


class Refusals(unittest.TestCase):
    def test_without_root_it_says_so_with_a_code_of_its_own(self):
        # From standard input, so that it does not matter whether the other user may read the tree.
        with open(LAB) as script:
            code = script.read().replace("sys.argv[1:]", repr(["down", "--name", "x"]))
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-"], text=True,
                              capture_output=True, input=code, timeout=HANGS)
        self.assertEqual(done.returncode, SKIPPED, done.stderr)
        self.assertIn("needs root", done.stderr)

    def test_bad_values_are_named(self):
        for args in (["--name", "x", "--hosts", "2", "--rate", "fast"], ["--name", "X/..", "--hosts", "2", "--rate", "1gbit"],
                     ["--name", "x", "--hosts", "0", "--rate", "1gbit"],
                     ["--name", "x", "--hosts", "2", "--rate", "1gbit", "--delay-ms", "-1"],
                     ["--name", "x", "--hosts", "1", "--rate", "1gbit", "--delay-ms", "20"]):
            done = lab("up", *args)
            self.assertEqual(done.returncode, 2, done.stderr)
        tiny = lab("up", "--name", NAME + "-c", "--hosts", "1", "--rate", "1gbit", "--cores-per-host", "0.01")
        self.assertEqual(tiny.returncode, 1)
        self.assertIn("--cpu-period-ms", tiny.stderr)
        self.assertEqual(leftovers(NAME + "-c"), [])


def lab_is_possible():
    probe = lab("up", "--name", NAME + "-probe", "--hosts", "1", "--rate", "1gbit", "--cores-per-host", "0.5")
    lab("down", "--name", NAME + "-probe")
    if probe.returncode != 0:
        print(f"skipped: {probe.stderr.strip()}")
    return probe.returncode == 0


if __name__ == "__main__":
    if not lab_is_possible():
        sys.exit(SKIPPED)
    unittest.main()
