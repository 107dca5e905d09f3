"""The networks of strong scaling, and what the balance equations allow them, by published counts and examples that are worked out by hand."""

import dataclasses
import os
import tempfile
import unittest

import context  # noqa: F401
import scaling
from scaling import DATA, HYBRID, MODEL, Network, Point, Sent


def published(network, extent):
    return sum(layer.weights for layer in dataclasses.replace(network, extent=extent, width=1).layers(channels=3, classes=1000))


class Networks(unittest.TestCase):
    def test_at_full_width_they_are_the_published_ones(self):
        vgg, overfeat = scaling.NETWORKS
        self.assertEqual([published(vgg, 224), published(overfeat, 231)], [132863336, 145920872])

    def test_inputs_of_layers(self):
        layers = {layer.name: layer for layer in scaling.NETWORKS[0].layers()}
        # 16 channels of 32 x 32 behind the first pooling; 128 of 2 x 2 behind the last.
        self.assertEqual([layers[name].inputs for name in ("conv1", "conv2", "fc6", "fc8")], [64 * 64, 16 * 32 * 32, 128 * 2 * 2, 1024])
        self.assertEqual(layers["conv2"].weights, (9 * 16 + 1) * 32)

    def test_samples_are_the_same_every_time(self):
        def bytes_of(folder):
            scaling.write_samples(folder, 8, 20)
            with open(os.path.join(folder, "8", "train", "samples.npy"), "rb") as file:
                return file.read()

        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            first = bytes_of(one)
            self.assertEqual(first, bytes_of(other))
        self.assertEqual(len(first) - 20 * 8 * 8, int.from_bytes(first[8:10], "little") + 10)
        self.assertEqual((len(first) - 20 * 8 * 8) % 64, 0)


class Hosts(unittest.TestCase):
    def test_free_of_processors_they_keep_their_links_and_their_share_of_a_core(self):
        free = scaling.without_processor_costs("hosts:\n  - name: host\n    cores: 0.2\n    quota_period: 0.005\n    network:\n      bandwidth: 1e6\n"
                                               "      send_time: 1e-06\n      receive_time: 1e-06\n      send_speed: 1e9\n      receive_speed: 1e9\n      latency: 1e-05\n")
        self.assertEqual(free, "hosts:\n  - name: host\n    cores: 0.2\n    quota_period: 5e-05\n    network:\n      bandwidth: 1e6\n      latency: 1e-05\n")


class Equations(unittest.TestCase):
    # One convolution of 1 channel, and one linear layer: 2 x 2 images, pooled to 1.
    SMALL = Network("small", (scaling.Convolution(4, pools=True),), (), 2, 1)

    def test_layers(self):
        self.assertEqual([(layer.name, layer.inputs, layer.weights) for layer in self.SMALL.layers()], [("conv1", 4, 40), ("fc6", 4, 50)])

    def test_data_parallel_sends_weights_alone(self):
        # 2 (n-1)/n of 4 bytes each.
        self.assertEqual(scaling.sent(self.SMALL, DATA, 4, 1), Sent(2 * 0.75 * 4 * 90, 0))

    def test_model_parallel_sends_activations_alone(self):
        self.assertEqual(scaling.sent(self.SMALL, MODEL, 4, 4), Sent(0, 2 * 0.75 * 4 * scaling.BATCH * 8))

    def test_a_hybrid_sends_weights_of_convolutions_and_activations_of_linear_layers(self):
        self.assertEqual(scaling.sent(self.SMALL, HYBRID, 4, 4), Sent(2 * 0.75 * 4 * 40, 2 * 0.75 * 4 * scaling.BATCH * 4))
        # Two groups of two: half of the weights is a member's, summed with one other; activations are of half of the batch.
        self.assertEqual(scaling.sent(self.SMALL, HYBRID, 4, 2), Sent(2 * 0.75 * 4 * 40 + 2 * 0.5 * 4 * 25, 2 * 0.5 * 4 * scaling.BATCH / 2 * 4))

    def test_weights_travel_beside_computation_and_activations_do_not(self):
        self.assertEqual(scaling.allowed(8, 4, Sent(100, 30), 100), 2 + 0.3)
        self.assertEqual(scaling.allowed(8, 4, Sent(300, 0), 100), 3)

    def test_points_say_how_layers_are_split(self):
        vgg = scaling.NETWORKS[0]
        self.assertEqual(Point(vgg, DATA, 8).overrides(), [])
        self.assertEqual(Point(vgg, MODEL, 8).overrides(), ["mesh.tensor=8"])
        self.assertEqual(Point(vgg, HYBRID, 8).overrides(), ["mesh.tensor=4", "mesh.splits=[auto]"])
        self.assertEqual(len(scaling.points_of(vgg, (1, 2, 4, 8))), 10)


if __name__ == "__main__":
    unittest.main()
