"""The closed form of what an order of the exchange hides, and what a trace shows, by examples that are worked out by hand."""

import dataclasses
import json
import os
import tempfile
import unittest

import context  # noqa: F401
import overlap
import scaling
from harness import machine, twin
from overlap import Bucket

PROFILE = """\
model: two
segments:
  - name: first
    forward: 1
    backward: 2
    forward_flops: 0
    parameters:
      - name: first.weight
        gradient_from: 5
        gradient: 5
  - name: second
    forward: 3
    backward: 4
    parameters:
      - name: second.weight
        shape: [10, 10]
        gradient_from: 1
        gradient: 3
      - name: second.bias
        gradient_from: 4
        gradient: 4
"""
PLAN = """\
resolved:
  buckets:
    - parameters: [second.bias, second.weight]
      part: 0
      parts: 1
      bytes: 300
      collectives: [all_reduce ring]
    - parameters: [second.weight]
      part: 1
      parts: 2
      bytes: 100
"""


class ClosedForm(unittest.TestCase):
    FORWARD, BACKWARD = (1.0, 3.0), 6.0

    def exposed(self, buckets, by_priority=False):
        return overlap.exposed(self.FORWARD, self.BACKWARD, buckets, by_priority)

    def test_one_bucket_of_all_hides_nothing(self):
        self.assertEqual(self.exposed([Bucket((0, 1), 6, 8)]), 8)

    def test_what_is_complete_early_hides_behind_the_backward_pass(self):
        # From 4 to 9, and then from 9 to 10; the pass ends at 6.
        self.assertEqual(self.exposed([Bucket((1,), 4, 5), Bucket((0,), 6, 1)]), 4)
        self.assertEqual(self.exposed([Bucket((1,), 1, 2), Bucket((0,), 3, 1)]), 0)

    def test_by_priority_the_next_forward_pass_hides_the_rest(self):
        # The second layer's parts go from 1 to 5 and to 7, then the first layer's, which came at 6, to 8, and the last part to 10. The first segment runs from 8
        # to 9, the second from 10 to 13: three more than 6 + 4.
        buckets = [Bucket((1,), 1, 4), Bucket((1,), 2, 2), Bucket((1,), 6, 2), Bucket((0,), 6, 1)]
        self.assertEqual(self.exposed(buckets, by_priority=True), 3)
        # In order of completion it would be all that is left behind 6.
        self.assertEqual(self.exposed(buckets), 4)
        # A linear layer takes what there is of its weight: from 9 to 11 its first two thirds, which came before, and then the last one.
        rows = [dataclasses.replace(one, by_rows=one.segments == (1,)) for one in buckets]
        self.assertEqual(self.exposed(rows, by_priority=True), 2)
        # What else it reads it needs before.
        self.assertEqual(self.exposed([*rows, Bucket((1,), 6, 1)], by_priority=True), 4)

    def test_profile_and_plan_are_read(self):
        segments = overlap.read_profile(PROFILE)
        self.assertEqual([(one["forward"], one["backward"]) for one in segments], [(1, 2), (3, 4)])
        self.assertEqual(segments[1]["parameters"]["second.weight"], {"gradient_from": 1, "gradient": 3})
        self.assertEqual(overlap.read_buckets(PLAN), [(("second.bias", "second.weight"), 0, 1, 300), (("second.weight",), 1, 2, 100)])

    def test_a_step_is_laid_out_by_the_profiles_shares(self):
        # Ten seconds of the profile are five.
        forward, backward, buckets = overlap.laid_out(overlap.read_profile(PROFILE), overlap.read_buckets(PLAN), 5, 8)
        self.assertEqual((forward, backward), ([0.5, 1.5], 3))
        self.assertEqual(buckets, [Bucket((1,), 2, 6), Bucket((1,), 1.5, 2)])

    def test_parts_are_complete_one_after_the_other(self):
        parts = [(("second.weight",), part, 3, 10) for part in range(3)]
        _, _, buckets = overlap.laid_out(overlap.read_profile(PROFILE), parts, 10, 3)
        self.assertEqual([(bucket.complete, bucket.by_rows) for bucket in buckets], [(1, False), (2, False), (3, False)])
        linear = PROFILE.replace("        gradient: 3\n", "        gradient: 3\n        linear: true\n")
        _, _, buckets = overlap.laid_out(overlap.read_profile(linear), parts, 10, 3)
        self.assertTrue(all(bucket.by_rows for bucket in buckets))
        _, _, (whole,) = overlap.laid_out(overlap.read_profile(linear), [(("second.weight",), 0, 1, 30)], 10, 3)
        self.assertFalse(whole.by_rows)


class Labs(unittest.TestCase):
    def test_quotas_are_not_below_what_kernels_take(self):
        shares = [(lab.cores_per_host, lab.cpu_period_ms or 10) for lab, _ in (*overlap.SETTINGS, *overlap.SMOKE)]
        for cores, period in [*shares, (scaling.CORES, scaling.PERIOD_MS)]:
            self.assertGreaterEqual(round(cores * period, 6), 1)


class Traces(unittest.TestCase):
    def test_what_passes_do_not_cover(self):
        self.assertEqual(overlap.uncovered([(0, 4), (2, 6), (8, 9)], [(1, 3), (5, 7)]), 1 + 2 + 1)

    def test_exposed_communication_of_a_step(self):
        def span(name, begin, end, unit=None, rank=0):
            return {"ph": "X", "pid": rank, "name": name, "ts": 1e6 * begin, "dur": 1e6 * (end - begin), "args": {"unit": unit}}

        def step(at):
            return [span("forward", at + 2, at + 3), span("forward and backward", at + 3, at + 9), span("all_reduce ring", at + 6, at + 9, "bucket 0 (a)"),
                    span("all_reduce ring", at + 9, at + 11, "bucket 1 (b)"), span("all_reduce tree", at + 1, at + 2, 0x40000000),
                    span("all_reduce ring", at, at + 9, "bucket 1 (b)", rank=1)]

        # A step ends with its last pass: of the next one, two seconds are of the bucket that was left.
        three = [*step(0), *step(10), *step(20)]
        self.assertEqual(overlap.traced({"traceEvents": three}), 2)
        self.assertIsNone(overlap.traced({"traceEvents": step(0)}))
        late = [span("all_reduce ring", 11, 12, "bucket 2 (c)")]  # one more second, of the second step
        self.assertEqual(overlap.traced({"traceEvents": [*three, *late]}, 1), 2.5)
        self.assertEqual(overlap.traced({"traceEvents": [*three, *late]}, 2), 2)
        self.assertIsNone(overlap.traced({"traceEvents": three}, 3))


class Runs(unittest.TestCase):
    def test_steps_in_which_memory_is_first_touched_are_not_timed(self):
        with tempfile.TemporaryDirectory() as out:
            with open(os.path.join(out, "summary.json"), "w") as file:
                json.dump({}, file)
            with open(os.path.join(out, "metrics.jsonl"), "w") as file:
                for step in range(8):
                    file.write(json.dumps({"loss/train": step, "time/step_ms": 9000 if step < twin.UNTIMED["full"] else 1000 + step, "time/compute_ms": 700,
                                           "time/exposed_communication_ms": 0}) + "\n")
            run = twin.read_run(out, "full")
            self.assertEqual((run.step, run.computation, len(run.losses)), (1.006, 0.7, 8))
            self.assertEqual(twin.read_run(out, "smoke").step, 9)

    def test_every_mode_times_several_steps(self):
        for mode, untimed in twin.UNTIMED.items():
            for steps in (overlap.STEPS[mode][0], scaling.STEPS[mode][0]):
                self.assertGreater(steps, untimed + 1)


class Machine(unittest.TestCase):
    def test_own_work_is_not_somebody_elses(self):
        with machine.Watch() as watch:
            deadline = machine.own_seconds() + 0.2
            while machine.own_seconds() < deadline:
                pass
        self.assertGreaterEqual(watch.others, 0)
        self.assertGreater(machine.used_seconds(), 0)


if __name__ == "__main__":
    unittest.main()
