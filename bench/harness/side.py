"""One side of a comparison: a group of processes that lives as long as its benchmark and answers requests.

Rank 0 takes a request per line on its standard input and answers with a line of JSON. Between requests every process
sleeps, so that sides can take turns without disturbing each other.
"""
import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time


class SideFailed(Exception):
    pass


@contextlib.contextmanager
def interrupts_wait():
    """Signals that end a benchmark come when the block is done: an interrupt inside of Popen() would leave a process that nobody knows."""
    came = []
    signums = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()  # others have no handlers
    before = {}
    try:
        for signum in signums:
            before[signum] = signal.signal(signum, lambda signum, _frame: came.append(signum))
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        if came:
            signal.raise_signal(came[0])


class Side:
    def __init__(self, name, commands, log_folder, env=None):
        """`commands[r]` starts rank r; a launcher that starts all ranks is one command.

        `env[r]` is added to the environment of commands[r].
        """
        os.makedirs(log_folder, exist_ok=True)
        self.name = name
        self.log_path = os.path.join(log_folder, f"{name.replace(' ', '-')}.log")
        self.pending = b""
        self.processes = []
        try:
            with open(self.log_path, "wb") as log, interrupts_wait():
                for rank, command in enumerate(commands):
                    leads = rank == 0
                    self.processes.append(subprocess.Popen(
                        command, stdin=subprocess.PIPE if leads else subprocess.DEVNULL, stdout=subprocess.PIPE if leads else log,
                        stderr=log, env={**os.environ, **(env[rank] if env else {})}, start_new_session=True, bufsize=0))
        except BaseException:  # nobody has the side yet who could stop it
            if self.processes:
                self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def ask(self, request, timeout=120):
        self.send(request)
        return self.receive(request, timeout)

    def send(self, request):
        try:
            self.processes[0].stdin.write(request.encode() + b"\n")
        except BrokenPipeError:
            self.fail(request, "its rank 0 has ended")

    def receive(self, request, timeout=120):
        leader = self.processes[0]
        deadline = time.monotonic() + timeout
        while True:
            while b"\n" in self.pending:
                line, _, self.pending = self.pending.partition(b"\n")
                if line.startswith(b"{"):  # libraries print notes of their own
                    return self.understand(request, line)
            if not select.select([leader.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                self.fail(request, f"no answer within {timeout} s")
            chunk = os.read(leader.stdout.fileno(), 1 << 16)
            if not chunk:
                self.fail(request, "its rank 0 has ended")
            self.pending += chunk

    def understand(self, request, line):
        answer = json.loads(line)
        if "error" in answer:
            self.fail(request, answer["error"])
        return answer

    def fail(self, request, why):
        self.stop()
        with open(self.log_path, errors="replace") as log:
            tail = "".join(log.readlines()[-15:])
        raise SideFailed(f"{self.name}, asked to `{request}`: {why}\n{tail}")

    def stop(self):
        """An interrupt cuts the waiting short, not the end of processes."""
        try:
            self.let_end()
        finally:
            with interrupts_wait():
                self.make_end()

    def let_end(self):
        leader = self.processes[0]
        try:
            leader.stdin.write(b"quit\n")
            leader.stdin.close()
        except (BrokenPipeError, ValueError):
            pass
        deadline = time.monotonic() + 10
        for process in self.processes:
            try:
                process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass

    def make_end(self):
        for signum in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes:
                if process.poll() is None:
                    os.killpg(process.pid, signum)
                    try:
                        process.wait(5)
                    except subprocess.TimeoutExpired:
                        continue
        self.processes[0].stdout.close()
