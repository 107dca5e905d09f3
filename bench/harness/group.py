"""Groups of processes: one that runs to its end, such as a training job of a few workers, and one that runs beside a block."""
import contextlib
import os
import signal
import subprocess
import tempfile
import time

from harness.side import SideFailed, interrupts_wait


INTERRUPTED = 143  # Taxon's exit code when a signal has ended a run in order


def run_group(name, commands, envs, log_folder, timeout=300, enough=None, watch=None):
    """Starts commands[r] with envs[r] added to the environment, waits for all; returns rank 0's standard output.

    Ends all when one fails or time is up. When `enough`, called now and then, says so, every process gets one SIGTERM, and ends in order.
    `watch` is called now and then with the processes, each the leader of a session.
    """
    log_path = log_of(name, log_folder)
    with open(log_path, "wb") as log, tempfile.TemporaryFile() as answer:
        processes = []
        try:
            start_all(processes, commands, envs, answer, log)
            stopped = wait_for_all(processes, timeout, enough, watch)
        finally:
            end_all(processes)
        good = (0, INTERRUPTED) if stopped else (0,)
        failed = [rank for rank, process in enumerate(processes) if process.returncode not in good]
        answer.seek(0)
        text = answer.read().decode(errors="replace")
    if failed:
        raise SideFailed(f"{name}: process {failed[0]} ended with {processes[failed[0]].returncode}\n{text[-2000:]}{last_lines(log_path)}")
    return text


@contextlib.contextmanager
def background(name, commands, envs, log_folder, begun=lambda: True, timeout=300):
    """While the `with` block lasts, commands[r] run, each for itself. One that ends before is an error. The block waits until `begun`, called now and then, says so."""
    log_path = log_of(name, log_folder)
    with open(log_path, "wb") as log:
        processes = []
        try:
            start_all(processes, commands, envs, log, log)
            deadline = time.monotonic() + timeout
            while not begun() and all(process.poll() is None for process in processes):
                if time.monotonic() > deadline:
                    raise SideFailed(f"{name}: not under way after {timeout} s\n{last_lines(log_path)}")
                time.sleep(0.05)
            if all(process.poll() is None for process in processes):
                yield processes
            ended = [process.returncode for process in processes if process.poll() is not None]
        finally:
            end_all(processes, moment=0)
    if ended:
        raise SideFailed(f"{name}: a process ended with {ended[0]} while it was needed\n{last_lines(log_path)}")


def start_all(processes, commands, envs, output, log):
    """Adds them one by one to `processes`, so that whoever ends these knows all that have started. `output`: of the first."""
    with interrupts_wait():
        for rank, (command, env) in enumerate(zip(commands, envs)):
            processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output if rank == 0 else log, stderr=log, env={**os.environ, **env},
                                              start_new_session=True))


def log_of(name, log_folder):
    os.makedirs(log_folder, exist_ok=True)
    return os.path.join(log_folder, f"{name.replace(' ', '-')}.log")


def last_lines(log_path):
    with open(log_path, errors="replace") as log:
        return "".join(log.readlines()[-15:])


def wait_for_all(processes, timeout, enough=None, watch=None):
    """True if it was enough."""
    deadline = time.monotonic() + timeout
    stopped = False
    while time.monotonic() < deadline:
        codes = [process.poll() for process in processes]
        if all(code is not None for code in codes) or any(code not in (None, 0) and not (stopped and code == INTERRUPTED) for code in codes):
            return stopped
        if enough and not stopped and enough():
            stopped = True
            for process in processes:
                if process.poll() is None:
                    os.kill(process.pid, signal.SIGTERM)
        if watch:
            watch(processes)
        time.sleep(0.02 if not enough else 0.2)
    return stopped


def end_all(processes, moment=2):
    """The others may still be saying why they end, so they get a moment, which an interrupt cuts short."""
    def wait(seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(process.poll() is None for process in processes):
            time.sleep(0.02)

    try:
        wait(moment)
    finally:
        with interrupts_wait():
            for signum, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 10)):
                for process in processes:
                    if process.poll() is None:
                        os.killpg(process.pid, signum)
                wait(patience)
