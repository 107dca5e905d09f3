"""What is measured between two hosts of the test cluster, and what becomes of it without one."""

import contextlib
import unittest
from unittest import mock

import context  # noqa: F401
from harness import two_hosts


class Between(unittest.TestCase):
    def measured(self, missing, cluster):
        seen, session = [], mock.Mock()
        with mock.patch.object(two_hosts, "Cluster", cluster), mock.patch.object(two_hosts, "stream_bandwidth", lambda session, cluster: 125e6):
            two_hosts.measure_between(session, "1gbit", missing, lambda session, stack, cluster: f"sides of {cluster}",
                                      lambda session, *more: seen.append(more))
        return seen, [(what, str(why)) for _, (what, why), _ in session.skip.mock_calls]

    def test_each_that_is_missing_is_measured_in_one_cluster(self):
        cluster = mock.Mock(return_value=contextlib.nullcontext("a cluster"))
        self.assertEqual(self.measured([1, 2], cluster)[0], [("sides of a cluster", 1, 125e6), ("sides of a cluster", 2, 125e6)])
        cluster.assert_called_once_with(2, "1gbit")

    def test_nothing_is_started_where_nothing_is_missing(self):
        cluster = mock.Mock()
        self.assertEqual(self.measured([], cluster), ([], []))
        cluster.assert_not_called()

    def test_without_a_cluster_it_says_what_was_skipped(self):
        seen, skipped = self.measured([1], mock.Mock(side_effect=two_hosts.NoCluster("no privilege")))
        self.assertEqual((seen, skipped), ([], [("the test cluster", "no privilege")]))


if __name__ == "__main__":
    unittest.main()
