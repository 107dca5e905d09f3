"""When a simulated step counts as the real one's, and when a measurement was disturbed."""

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
        self.assertTrue(bench.verified(row(calibration=0.0, profile=0.14), PLAIN, False))
        self.assertFalse(bench.verified(row(calibration=0.0, profile=0.16), PLAIN, False))
        self.assertTrue(bench.verified(row(calibration=0.0, profile=0.16), PLAIN, True))


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
