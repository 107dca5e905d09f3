#!/usr/bin/python3
"""One process of PyTorch that trains a network of docs/benchmarks.md, as a sensible user would write it: what bench/peers/libtorch_loop.cc does, with its
options, requests and answers, in Python."""
import argparse
import gzip
import json
import os
import struct
import sys
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy

MEAN, DEVIATION = 0.2860, 0.3530
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def named(**layers):
    """With the names of Taxon's parameters."""
    network = nn.Sequential()
    for name, layer in layers.items():
        network.add_module(name, layer)
    return network


def cnn():
    return named(conv1=nn.Conv2d(1, 32, 3, padding=1), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
                 conv2=nn.Conv2d(32, 64, 3, padding=1), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
                 flatten=nn.Flatten(), fc1=nn.Linear(64 * 7 * 7, 1024), relu3=nn.ReLU(), fc2=nn.Linear(1024, 10))


def conv(inputs, outputs, extent, stride):
    return nn.Conv2d(inputs, outputs, extent, stride, extent // 2, bias=False)


class Block(nn.Module):
    """He et al., CVPR 2016, with the names of torchvision."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        changes = inputs != outputs or stride != 1
        self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)) if changes else nn.Identity()

    def forward(self, inputs):
        inside = self.bn2(self.conv2(self.bn1(self.conv1(inputs)).relu_()))
        return (inside + self.downsample(inputs)).relu_()


def resnet18():
    sizes = (64, 64, 128, 256, 512)
    stages = {f"layer{i}": nn.Sequential(Block(sizes[i - 1], sizes[i], 1 if i == 1 else 2), Block(sizes[i], sizes[i], 1)) for i in range(1, 5)}
    return named(conv1=conv(1, 64, 3, 1), bn1=nn.BatchNorm2d(64), relu=nn.ReLU(True), **stages, pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(),
                 fc=nn.Linear(512, 10))


NETWORKS = {"cnn": cnn, "resnet18": resnet18}


def tensor_in(data, kind):
    return torch.frombuffer(bytearray(data), dtype=kind)


def load(folder, part):
    def values(name, header):
        with gzip.open(os.path.join(folder, f"{part}-{name}-ubyte.gz")) as file:
            return tensor_in(file.read()[header:], torch.uint8)

    images = values("images-idx3", 16).reshape(-1, 1, 28, 28).to(torch.float32)
    return images.div_(255).sub_(MEAN).div_(DEVIATION), values("labels-idx1", 8).to(torch.int64)


def begin_with(model, path):
    """Gives the parameters the values of a safetensors file."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        head = json.loads(file.read(length))
        values = file.read()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            begin, end = head[name]["data_offsets"]
            parameter.copy_(tensor_in(values[begin:end], torch.float32).reshape(parameter.shape))


class Loop:
    def __init__(self, args):
        self.args = args
        torch.set_num_threads(args.threads)
        (self.images, self.labels), self.test = load(args.data, "train"), load(args.data, "t10k")
        with open(args.order, "rb") as file:
            self.order = tensor_in(file.read(), torch.int64)

    def accuracy(self, model, samples):
        model.eval()
        images, labels = (values[:samples] for values in self.test)
        with torch.no_grad():
            right = sum((model(images[i:i + 500]).argmax(1) == labels[i:i + 500]).sum().item() for i in range(0, samples, 500))
        return right / samples

    def train(self, batch, rate, steps, test_samples, memory_format):
        torch.manual_seed(1)
        model = NETWORKS[self.args.model]()
        if self.args.weights:
            begin_with(model, self.args.weights)
        layout = FORMATS[memory_format]
        model = model.to(memory_format=layout)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        seconds, losses, first = [], [], 0
        for _ in range(steps):
            begin = time.perf_counter()
            size = min(batch, len(self.labels) - first % len(self.labels))  # the last batch of an epoch is smaller
            chosen = self.order[first:first + size]
            first += size
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(model(self.images.index_select(0, chosen).contiguous(memory_format=layout)), self.labels.index_select(0, chosen))
            loss.backward()
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
            losses.append(loss.detach())
        result = {"seconds": seconds, "losses": torch.stack(losses).tolist(), "parameters": sum(p.numel() for p in model.parameters()),
                  "version": torch.__version__}
        if test_samples:
            result["test_accuracy"] = self.accuracy(model, test_samples)
        return result

    def serve(self):
        for line in sys.stdin:
            name, _, options = line.strip().partition(" ")
            if name != "train":
                return
            print(json.dumps(self.train(**json.loads(options))), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=NETWORKS, default="cnn")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--weights", default="")
    parser.add_argument("--order", required=True)
    Loop(parser.parse_args()).serve()
