"""Sides that are under way at once, of which one computes at a time, a slice of time after the other: what else a machine does, and how fast it happens to
be, meets all of them alike. Turns of whole runs lie too far apart for that."""
import contextlib
import dataclasses
import math
import os
import random
import signal
import threading
import time


class TooShort(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Steps:
    """Of one side: what each took by the clock, when it was over, in seconds since the epoch, and from when to when the side was stopped."""
    seconds: list
    ends: list
    stops: list

    def running(self, begin, end):
        """Of that time what it was not stopped."""
        return max(0, end - begin) - sum(max(0, min(end, until) - max(begin, since)) for since, until in self.stops)

    def pace(self, begin, end):
        """Seconds that a step took in that time, of which those in which the side was stopped are no part; a step that lies within in part counts as such."""
        seconds = steps = 0
        for one, over in zip(self.seconds, self.ends, strict=True):
            inside, whole = self.running(max(begin, over - one), min(end, over)), self.running(over - one, over)
            seconds += inside
            steps += inside / whole if whole else 0
        if not steps:
            raise TooShort("a side has no step in the time in which all took turns: train for more steps")
        return seconds / steps


def paces(sides, began):
    """name -> its pace in the time in which all took turns, which `began` then: from when each has ended a step, since memory is first touched in the first, until
    the first side has ended. `sides`: name -> Steps. Each meets the same machine, now faster and now slower."""
    begin = max(min((end for end in steps.ends if end > began), default=math.inf) for steps in sides.values())
    end = min(steps.ends[-1] for steps in sides.values())
    return {name: steps.pace(begin, end) for name, steps in sides.items()}


class Member:
    """What a side's run knows of the slices."""

    def __init__(self, slices, name):
        self.slices, self.name = slices, name

    def enter(self, processes):
        """From now on these, each the leader of a session, run in their slices alone. Once it has entered, nothing changes."""
        self.slices.enter(self.name, processes)

    def took(self, seconds, ends):
        """What each of its steps took by the clock, and when it was over."""
        self.slices.steps[self.name] = Steps(seconds, ends, self.slices.stops[self.name])


class Slices:
    def __init__(self, members, seconds):
        self.seconds = seconds
        self.awaited = set(members)  # those who are still beginning; slices start when there is none
        self.running = {}  # name -> the leaders of its sessions
        self.stops = {name: [] for name in members}  # [from, until], in seconds since the epoch
        self.steps = {}  # name -> Steps
        self.began = math.inf
        self.over, self.last = False, None  # and the signal that ended it
        self.changed = threading.Condition()

    def stop(self, name):
        self.send(name, signal.SIGSTOP)
        self.stops[name].append([time.time(), math.inf])

    def go_on(self, name):
        if self.stops[name]:
            self.stops[name][-1][1] = min(self.stops[name][-1][1], time.time())
        self.send(name, signal.SIGCONT)

    def send(self, name, number):
        for process in self.running[name]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def enter(self, name, processes):
        with self.changed:
            if name in self.awaited:
                self.awaited.remove(name)
                self.running[name] = list(processes)
                if self.over:
                    self.send(name, self.last)
                else:
                    self.stop(name)
                self.changed.notify_all()

    def await_entry(self, name):
        """Until it has entered or left, or all is over."""
        with self.changed:
            self.changed.wait_for(lambda: self.over or name not in self.awaited)

    def leave(self, name):
        with self.changed:
            self.awaited.discard(name)
            if name in self.running:
                self.go_on(name)
                del self.running[name]
            self.changed.notify_all()

    def end(self, number=signal.SIGCONT):
        """Everybody runs freely, or gets that signal; who enters later, too."""
        with self.changed:
            self.over, self.last = True, number
            for name in self.running:
                self.send(name, number)
                self.go_on(name)
            self.changed.notify_all()

    def hand_out(self):
        """To each its slice, in an order drawn anew each time, so that no side always follows the same one, whose traces it finds in the caches."""
        chance, order = random.Random(0), []
        with self.changed:
            self.changed.wait_for(lambda: self.over or not self.awaited)
            self.began = time.time()
            while self.running and not self.over:
                order = [name for name in order if name in self.running] or chance.sample(list(self.running), len(self.running))
                name = order.pop()
                self.go_on(name)
                if not self.changed.wait_for(lambda: self.over or name not in self.running, self.seconds):
                    self.stop(name)


def together(runs, seconds):
    """Calls all of `runs` (name -> function of a `member` that returns a figure), which are then under way at once; returns name -> figure, and of those who said
    what their steps took name -> seconds a step (paces).

    They begin one after the other, each once the one before has entered, which a run does where its measured steps begin; until all have entered, those who have
    are stopped. When one fails the others that have begun go on freely to their ends, and its error is raised; when the caller is interrupted, their processes get
    SIGTERM.
    """
    slices, figures, errors, threads = Slices(runs, seconds), {}, [], []

    def run(name):
        try:
            figures[name] = runs[name](member=Member(slices, name))
        except Exception as error:
            errors.append(error)
            slices.end()
        finally:
            slices.leave(name)

    def begin(function, *args):
        threads.append(threading.Thread(target=function, args=args))
        threads[-1].start()

    try:
        begin(slices.hand_out)
        for name in runs:
            if not errors:
                begin(run, name)
                slices.await_entry(name)
        for thread in threads:
            thread.join()
    except BaseException:
        slices.end(signal.SIGTERM)
        for thread in threads:
            thread.join()
        raise
    if errors:
        raise errors[0]
    return figures, paces(slices.steps, slices.began) if slices.steps else {}
