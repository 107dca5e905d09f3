"""Sides that are under way at once, of which one computes at a time, a slice of time after the other: what else a machine does, and how fast it happens to
be, meets all of them alike. Turns of whole runs lie too far apart for that."""
import contextlib
import os
import signal
import threading

from harness.side import SideFailed


class TooLongSteps(SideFailed):
    pass


def undisturbed(seconds, slice_seconds):
    """Steps during which the side was not stopped. A stop lasts at least the slice of another, which is chosen several steps long."""
    kept = [one for one in seconds if one < slice_seconds]
    if 2 * len(kept) < len(seconds):
        raise TooLongSteps(f"{len(seconds) - len(kept)} of {len(seconds)} steps took {slice_seconds} s or longer: slices are too short for them")
    return kept


class Member:
    """What a side's run knows of the slices."""

    def __init__(self, slices, name):
        self.slices, self.name = slices, name

    def enter(self, processes):
        """From now on these, each the leader of a session, run in their slices alone. Once it has entered, nothing changes."""
        self.slices.enter(self.name, processes)


class Slices:
    def __init__(self, members, seconds):
        self.seconds = seconds
        self.awaited = set(members)  # those who are still beginning; slices start when there is none
        self.running = {}  # name -> the leaders of its sessions
        self.over = False
        self.changed = threading.Condition()

    def send(self, name, number):
        for process in self.running[name]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def enter(self, name, processes):
        with self.changed:
            if name in self.awaited and not self.over:
                self.awaited.remove(name)
                self.running[name] = list(processes)
                self.send(name, signal.SIGSTOP)
                self.changed.notify_all()

    def leave(self, name):
        with self.changed:
            self.awaited.discard(name)
            if name in self.running:
                self.send(name, signal.SIGCONT)
                del self.running[name]
            self.changed.notify_all()

    def end(self, number=signal.SIGCONT):
        """Everybody runs freely, or gets that signal."""
        with self.changed:
            self.over = True
            for name in self.running:
                self.send(name, number)
                self.send(name, signal.SIGCONT)
            self.changed.notify_all()

    def hand_out(self):
        turn = 0
        with self.changed:
            self.changed.wait_for(lambda: self.over or not self.awaited)
            while self.running and not self.over:
                names = list(self.running)
                name = names[turn % len(names)]
                self.send(name, signal.SIGCONT)
                if not self.changed.wait_for(lambda: self.over or name not in self.running, self.seconds):
                    self.send(name, signal.SIGSTOP)
                    turn += 1


def together(runs, seconds):
    """Calls all of `runs` (name -> function of a `member` that returns a figure) at once; returns name -> figure.

    A run enters where its measured steps begin; until all have entered or failed, those who have are stopped. When one fails the others go on freely to
    their ends, and its error is raised; when the caller is interrupted, their processes get SIGTERM.
    """
    slices, figures, errors = Slices(runs, seconds), {}, []

    def run(name):
        try:
            figures[name] = runs[name](member=Member(slices, name))
        except Exception as error:
            errors.append(error)
            slices.end()
        finally:
            slices.leave(name)

    threads = [threading.Thread(target=run, args=(name,)) for name in runs] + [threading.Thread(target=slices.hand_out)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        slices.end(signal.SIGTERM)
        for thread in threads:
            thread.join()
        raise
    if errors:
        raise errors[0]
    return figures
