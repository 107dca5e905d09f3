#!/usr/bin/python3
"""One process of PyTorch that trains a network of docs/benchmarks.md, as a sensible user would write it: what bench/peers/libtorch_loop.cc does, with its
options, requests and answers, in Python."""
import argparse
import gzip
import json
import math
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


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.c_attn, self.c_proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, inputs):
        batch, tokens, width = inputs.shape
        query, key, value = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.c_attn(inputs).split(width, 2))
        return self.c_proj(mixed(query, key, value).transpose(1, 2).reshape(batch, tokens, width))


def mixed(query, key, value):
    if hasattr(nn.functional, "scaled_dot_product_attention"):  # since 2.0
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    later = torch.ones(query.shape[2], query.shape[2], dtype=torch.bool).triu(1)
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
    return scores.masked_fill(later, -math.inf).softmax(3) @ value


class Perceptron(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, inputs):
        return self.c_proj(nn.functional.gelu(self.c_fc(inputs)))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), Perceptron(width)

    def forward(self, inputs):
        attended = inputs + self.attn(self.ln_1(inputs))
        return attended + self.mlp(self.ln_2(attended))


class Gpt(nn.Module):
    """Radford et al., "Language models are unsupervised multitask learners", 2019 (GPT-2), whose logits are products with the embedding of tokens."""

    def __init__(self, vocabulary=256, context=128, layers=4, width=128, heads=4):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        values = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            values = block(values)
        return nn.functional.linear(self.ln_f(values), self.wte.weight)


def windows(folder, context):
    """Tokens and those that follow them, of a text byte by byte."""
    with open(os.path.join(folder, "train.txt"), "rb") as file:
        tokens = tensor_in(file.read(), torch.uint8).to(torch.int64)
    count = (len(tokens) - 1) // context
    return tuple(tokens[first:first + count * context].view(count, context).contiguous() for first in (0, 1))


# name -> the network, and (folder) -> training and test samples with their labels
NETWORKS = {"cnn": (cnn, lambda folder: (load(folder, "train"), load(folder, "t10k"))),
            "resnet18": (resnet18, lambda folder: (load(folder, "train"), load(folder, "t10k"))),
            "gpt": (Gpt, lambda folder: (windows(folder, 128), (None, None)))}


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
        if args.threads:
            torch.set_num_threads(args.threads)
        self.network, read = NETWORKS[args.model]
        (self.samples, self.labels), self.test = read(args.data)
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
        model = self.network()
        if self.args.weights:
            begin_with(model, self.args.weights)
        layout = FORMATS[memory_format]
        model = model.to(memory_format=layout)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        seconds, ends, losses, first = [], [], [], 0
        for _ in range(steps):
            begin = time.perf_counter()
            size = min(batch, len(self.labels) - first % len(self.labels))  # the last batch of an epoch is smaller
            chosen = self.order[first:first + size]
            first += size
            optimizer.zero_grad(set_to_none=True)
            samples = self.samples.index_select(0, chosen)
            logits = model(samples.contiguous(memory_format=layout) if samples.dim() == 4 else samples)
            loss = cross_entropy(logits.view(-1, logits.shape[-1]), self.labels.index_select(0, chosen).flatten())
            loss.backward()
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
            ends.append(time.time())
            losses.append(loss.detach())
        result = {"seconds": seconds, "ends": ends, "losses": torch.stack(losses).tolist(), "parameters": sum(p.numel() for p in model.parameters()),
                  "threads": torch.get_num_threads(), "version": torch.__version__}
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
    parser.add_argument("--threads", type=int, help="instead of OMP_NUM_THREADS")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--weights", default="")
    parser.add_argument("--order", required=True)
    Loop(parser.parse_args()).serve()
