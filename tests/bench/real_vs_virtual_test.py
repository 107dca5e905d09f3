"""When a simulated step counts as the real one's, and when a measurement was disturbed."""

import tempfile
import types
import unittest

import context  # noqa: F401
import real_vs_virtual as bench
from harness import machine


def row(real=1000.0, simulated=1000.0, **others):
    return types.SimpleNamespace(settings={"bytes_sent_per_step": [real, simulated], "others": others})


PLAIN, TITLED = bench.SETTINGS[0], bench.DISCIPLINES[0]


class Verified(unittest.TestCase):
    def test_bytes_of_a_step_are_the_real_ones(self):
        self.assertTrue(bench.verified(row(1000, 1019), PLAIN, False))
        self.assertFalse(bench.verified(row(1000, 1021), PLAIN, False))
        self.assertFalse(bench.verified(row(1000, 979), PLAIN, False))

    def test_ranks_that_do_not_keep_step_send_as_it_comes(self):
        self.assertTrue(bench.verified(row(1000, 1500), TITLED, False))

    def test_a_profile_beside_other_work_says_nothing(self):
        self.assertTrue(bench.verified(row(calibration=0.0, profiles=0.14), PLAIN, False))
        self.assertFalse(bench.verified(row(calibration=0.0, profiles=0.16), PLAIN, False))
        self.assertTrue(bench.verified(row(calibration=0.0, profiles=0.16), PLAIN, True))


class Compared(unittest.TestCase):
    def test_a_prediction_stands_beside_the_run_of_its_turn(self):
        """A machine that is twice as slow in one turn, and for one prediction."""
        real = {"parameters": 1, "compute_ms": 1, "exposed_communication_ms": 1, "bytes_sent_per_step": 10}
        simulated = {"breakdown_seconds": {}, "bytes_sent_per_step": 10}

        def turn(predicted, took):
            return bench.Turn(real | {"step_ms": {"p50": took}}, simulated | {"step_seconds": {"median": predicted / 1e3}}, 0.01)

        with tempfile.NamedTemporaryFile() as file:
            place = types.SimpleNamespace(cluster_file=file.name, disturbed={"calibration": 0.02}, session=types.SimpleNamespace(smoke=lambda: False))
            for turns, error in ([(100, 100), (210, 200), (110, 100)], 0.05), ([(100, 100), (110, 100), (240, 100)], 0.1):
                found = bench.compare(place, PLAIN, 8, [turn(*one) for one in turns])
                self.assertEqual((found.settings["error"], found.verified, found.met), (error, True, True))
        self.assertEqual(found.settings["others"], {"calibration": 0.02, "profiles": 0.01})


class Disturbed(unittest.TestCase):
    def place(self, others):
        """A place whose measurements other work disturbs as `others` says, one after the other."""
        place = object.__new__(bench.Place)
        place.session = types.SimpleNamespace(smoke=lambda: False)
        place.lab, place.disturbed, place.asked = bench.ONE_HOST, {}, 0
        seen = iter(others)

        class Watch:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                self.others = next(seen)

        def as_job(name, words):
            place.asked += 1
            return f"try {place.asked}"

        place.as_job = as_job
        original, machine.Watch = machine.Watch, Watch
        self.addCleanup(setattr, machine, "Watch", original)
        return place

    def test_a_quiet_machine_is_asked_once(self):
        place = self.place([0.05])
        self.assertEqual(place.undisturbed("profile", []), "try 1")
        self.assertEqual(place.disturbed, {"profile": 0.05})

    def test_other_work_is_waited_out_and_marked_where_it_stays(self):
        place = self.place([1.0, 0.5, 0.1])
        self.assertEqual(place.undisturbed("profile", []), "try 3")
        self.assertEqual(place.disturbed, {"profile": 0.1})
        place = self.place([1.0, 0.5, 0.3, 0.0])
        self.assertEqual(place.undisturbed("profile", []), "try 3")
        self.assertEqual(place.disturbed, {"profile": 0.3})


if __name__ == "__main__":
    unittest.main()
