"""Sides that are under way at once: one runs at a time, and none is left stopped."""
import functools
import math
import signal
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import context  # noqa: F401
from harness import slices
from harness.group import run_group
from harness.side import SideFailed

SLICE = 0.01


class Watched(slices.Slices):
    """Signals reach nobody, and are kept."""

    def __init__(self, members, seconds=SLICE):
        super().__init__(members, seconds)
        self.sent = []

    def send(self, name, number):
        self.sent.append((name, number))

    def wait(self, count=40):
        """For so many more signals."""
        count += len(self.sent)
        deadline = time.monotonic() + 60
        while len(self.sent) < count and time.monotonic() < deadline:
            time.sleep(SLICE)


class Slices(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def handed_out(self, watched):
        thread = threading.Thread(target=watched.hand_out)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(watched.end)
        return thread

    def side(self, program):
        """As a function of a member; its process enters as it starts."""
        return lambda member: run_group(f"side {member.name}", [[sys.executable, "-c", program]], [{}], self.folder.name, watch=member.enter)

    def test_one_side_runs_at_a_time(self):
        watched = Watched("abc")
        for name in "abc":
            watched.enter(name, [])
        self.handed_out(watched)
        watched.wait()
        sent = list(watched.sent)
        self.assertGreaterEqual(len(sent), 40)
        self.assertEqual(sent[:3], [(name, signal.SIGSTOP) for name in "abc"])
        slots = [sent[i:i + 2] for i in range(3, len(sent) - 1, 2)]
        for (name, first), (same, then) in slots:
            self.assertEqual((name, first, then), (same, signal.SIGCONT, signal.SIGSTOP))
        rounds = ["".join(slot[0][0] for slot in slots[i:i + 3]) for i in range(0, len(slots) - 2, 3)]
        self.assertEqual({"".join(sorted(one)) for one in rounds}, {"abc"})  # in each every side has one
        self.assertGreater(len(set(rounds)), 1)  # not always in the same order

    def test_nobody_runs_before_all_have_entered(self):
        watched = Watched("ab")
        watched.enter("a", [])
        self.handed_out(watched)
        time.sleep(5 * SLICE)
        self.assertEqual(watched.sent, [("a", signal.SIGSTOP)])
        watched.leave("b")  # it failed before it entered
        watched.wait(1)
        self.assertEqual(watched.sent[1], ("a", signal.SIGCONT))

    def test_who_enters_after_an_interruption_is_ended_as_well(self):
        watched = Watched("ab")
        watched.enter("a", [])
        watched.end(signal.SIGTERM)
        watched.enter("b", [])
        self.assertEqual(watched.sent, [("a", signal.SIGSTOP), ("a", signal.SIGTERM), ("a", signal.SIGCONT), ("b", signal.SIGTERM)])

    def test_who_has_left_runs_on_and_the_others_share_the_time(self):
        watched = Watched("abc")
        for name in "abc":
            watched.enter(name, [])
        self.handed_out(watched)
        watched.wait()
        watched.leave("b")
        watched.wait()
        for name in "ac":
            watched.leave(name)
        last = {name: number for name, number in watched.sent}
        self.assertEqual(last, {name: signal.SIGCONT for name in "abc"})
        self.assertEqual({name for name, _ in watched.sent[-8:-2]}, set("ac"))

    def test_processes_of_all_come_to_their_ends(self):
        found, paces = slices.together({name: self.side(f"import time; time.sleep(0.2); print({i})") for i, name in enumerate("abc")}, SLICE)
        self.assertEqual(paces, {})  # nobody said what steps took
        self.assertEqual({name: int(text) for name, text in found.items()}, {"a": 0, "b": 1, "c": 2})

    def test_each_begins_once_the_one_before_has_entered(self):
        events = []

        def begins(name, member):
            events.append(("begins", name))
            time.sleep(3 * SLICE)
            events.append(("enters", name))
            member.enter([])

        order = list("dbca")
        slices.together({name: functools.partial(begins, name) for name in order}, SLICE)
        self.assertEqual(events, [(what, name) for name in order for what in ("begins", "enters")])

    def test_none_begins_after_one_that_failed(self):
        begun = []

        def fails(member):
            begun.append("fails")
            raise ValueError

        with self.assertRaises(ValueError):
            slices.together({"fails": fails, "other": lambda member: begun.append("other")}, SLICE)
        self.assertEqual(begun, ["fails"])

    def test_time_in_which_a_side_was_stopped_is_no_part_of_its_steps(self):
        # Steps over at 10, 20 and 30; stopped within the first, over the border of both others, and before all of them.
        stops = [[-5, -1], [2, 5], [18, 21], [40, math.inf]]
        steps = slices.Steps([10, 10, 10], [10, 20, 30], stops)
        self.assertEqual([steps.running(end - 10, end) for end in steps.ends], [7, 8, 9])
        self.assertEqual(steps.running(44, 45), 0)
        self.assertAlmostEqual(steps.pace(10, 30), 8.5)
        self.assertAlmostEqual(steps.pace(10, 25), (8 + 4) / (1 + 4 / 9))  # the last in part

    def test_all_are_timed_while_all_take_turns(self):
        # On a machine that gets faster "late" would look so, since its first step comes when the others have theirs behind them; and "long" goes on alone.
        sides = {"early": slices.Steps([4, 4, 2, 2], [4, 8, 10, 12], []), "late": slices.Steps([4, 2, 2], [8, 10, 12], []),
                 "long": slices.Steps([4, 4, 2, 2, 1, 1], [4, 8, 10, 12, 13, 14], [])}
        self.assertEqual(slices.paces(sides, 0), {"early": 2, "late": 2, "long": 2})
        with self.assertRaises(slices.TooShort):
            slices.paces({"a": slices.Steps([4, 4], [4, 8], []), "b": slices.Steps([9], [9], [])}, 0)

    def test_stops_of_processes_are_known_by_their_clock(self):
        # Asleep a side is no slower for being stopped half of the time, so that only the rest is left.
        program = "import time; begin = time.time(); time.sleep(1); end = time.time(); print(end - begin, end)"

        def sleeps(member):
            member.took(*([float(word)] for word in self.side(program)(member).split()))

        def paces(sides, began):
            return {name: steps.running(steps.ends[0] - steps.seconds[0], steps.ends[0]) for name, steps in sides.items()}

        with unittest.mock.patch.object(slices, "paces", paces):
            _, found = slices.together({name: sleeps for name in "ab"}, SLICE)
        for seconds in found.values():
            self.assertLess(seconds, 0.9)
            self.assertGreater(seconds, 0.1)

    def test_the_error_of_one_lets_the_others_end(self):
        ended = threading.Event()

        def works(member):
            self.side("import time; time.sleep(0.2)")(member)
            ended.set()

        with self.assertRaises(SideFailed):
            slices.together({"fails": self.side("import sys; sys.exit(3)"), "works": works}, SLICE)
        self.assertTrue(ended.is_set())


if __name__ == "__main__":
    unittest.main()
