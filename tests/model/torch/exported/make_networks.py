#!/usr/bin/env python3
"""make_networks.py: writes networks/NAME.pt2 and networks/expected.json, what PyTorch makes of them, with the PyTorch that Python has.

The tests compare with these. They change where the list below changes, or another release of PyTorch writes other files: run it again then
(PyTorch 2.15 on one thread wrote those in the tree), and see that the tests pass with every libtorch.
"""
import json
import math
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks")
BATCH = 6
STEPS = 100


class Reshaped(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.shape = shape

    def forward(self, x):
        return x.reshape(x.shape[0], *self.shape)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 5))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding="same"), nn.GELU(), nn.AvgPool2d(3), nn.Flatten(), nn.Linear(8, 5)
    )


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


def resnet():
    """ResNet-18's stem for small images and two of its blocks, narrow."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(inplace=True), Residual(2, 2, 1), Residual(2, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
    )


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


class Attention(nn.Module):
    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, is_causal)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(approximate="tanh"), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """With the token embedding as the head's weight."""

    def __init__(self, vocabulary=11, length=6, width=8):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.block = Block(width, 2, True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.block(x)))


class Vit(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 3, stride=3)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 5, width) * 0.02)
        self.block = Block(width, 2, False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.block(x))[:, 0])


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layers = kind(6, 5, batch_first=True, **options)
        self.head = nn.Linear(10 if options.get("bidirectional") else 5, 5)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


class Tied(nn.Module):
    """An encoder whose weight decodes as well."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.numbers = nn.Linear(6, 4)
        self.head = nn.Bilinear(4, 4, 5)

    def forward(self, words, numbers):
        return self.head(self.words(words).mean(1), torch.sigmoid(self.numbers(numbers)))


class Masked(nn.Module):
    """Words, of which a mask says the ones that count, and their places: a range of whole numbers, and one of real ones."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(7, 4), nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5)

    def forward(self, words, mask):
        x = self.words(words) + self.places(torch.arange(words.shape[1]))
        x = x * torch.arange(words.shape[1], dtype=torch.float32)[:, None]
        x = x.masked_fill(~mask[..., None], 0.0)
        return self.head(x.sum(1) / mask.sum(1, keepdim=True).clamp(min=1))


class Loss(nn.Module):
    """What the model returns is its loss, and then its logits."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, labels):
        logits = self.net(x)
        return self.loss(logits, labels), logits


class Alone(Loss):
    def forward(self, x, labels):
        return self.loss(self.net(x), labels)


class Dropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 8))
        self.norm = nn.BatchNorm1d(8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.norm(self.body(x)).unsqueeze(1).expand(-1, 3, -1)
        return self.head(self.attention(x, x, x, need_weights=False)[0].sum(1))


class Statistics(nn.Module):
    """Buffers of its own: one changed in place, one given a new value, one that is not saved; and a constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 6), persistent=False)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        if self.training:
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.seen = self.seen + x.shape[0]
        return self.head((x - x.mean(0)) * self.scale) + torch.tensor([0.0, 0.1, 0.2, 0.3, 0.4])


class Running(nn.Module):
    """A buffer that the backward pass reads, and that has its next value by then. Decomposed: as it is exported, PyTorch can't train it either."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(5))
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        y = self.head(x) * self.scale
        if self.training:
            self.scale = 0.9 * self.scale + 0.1 * (1 + x[:, :5].mean(0))
        return y


def norms():
    """Decomposed: into functions that give new statistics, and into one that has none."""
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), Reshaped(2, 8), nn.InstanceNorm1d(2), nn.Flatten(), nn.Linear(16, 5))


class Sizes(nn.Module):
    """Arithmetic on the batch's size."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(3, 4), nn.Linear(8, 5)

    def forward(self, x):
        batch = x.shape[0]
        y = torch.tanh(self.first(x.view(batch * 2, 3))).view(batch, 8)
        row = torch.arange(batch)
        y = y * torch.full((batch, 1), 1.5) + (row / (2 * batch - 1)).unsqueeze(1)
        return self.head(torch.where((row >= batch // 2)[:, None], y.flip(1), y))


def rms_norm():
    return nn.Sequential(nn.Linear(6, 8), nn.RMSNorm(8), nn.SiLU(), nn.Linear(8, 5))


class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(6, 4, batch_first=True)
        self.head = nn.Linear(4, 5)
        self.double()

    def forward(self, x):
        weights = torch.linspace(0.0, 1.0, x.shape[1], dtype=torch.float64)
        return self.head((self.layers(x)[0] * weights[:, None]).sum(1))


def numbers(*shape):
    return {"shape": list(shape), "below": 0}


def words(below, *shape):
    return {"shape": list(shape), "below": below}


def flags(*shape):
    return {"shape": list(shape), "below": -1}


# Name: the network, its inputs without their batch dimension, the step size.
# With these step sizes the loss after all steps is the same to 0.1 % whatever instructions a processor has: larger or smaller ones let orders of sums decide.
NETWORKS = {
    "mlp": (mlp, [numbers(1, 6, 6)], 0.3),
    "cnn": (cnn, [numbers(1, 6, 6)], 0.2),
    "resnet": (resnet, [numbers(1, 8, 8)], 0.05),
    "encoder": (Encoder, [numbers(4, 8)], 0.05),
    "gpt": (Gpt, [words(11, 6)], 0.1),
    "vit": (Vit, [numbers(1, 6, 6)], 0.2),
    "lstm": (lambda: Recurrent(nn.LSTM, num_layers=2), [numbers(4, 6)], 0.3),
    "gru": (lambda: Recurrent(nn.GRU, bidirectional=True), [numbers(4, 6)], 0.3),
    "tied": (Tied, [numbers(6)], 0.2),
    "two_inputs": (TwoInputs, [words(7, 3), numbers(6)], 0.3),
    "masked": (Masked, [words(7, 5), flags(5)], 0.3),
    "dropout": (Dropout, [numbers(6)], 0.1),
    "statistics": (Statistics, [numbers(6)], 0.2),
    "running": (Running, [numbers(6)], 0.2),
    "norms": (norms, [numbers(6)], 0.1),
    "sizes": (Sizes, [numbers(6)], 0.2),
    "rms_norm": (rms_norm, [numbers(6)], 0.1),
    "double": (Double, [numbers(4, 6)], 0.3),
}
RANDOM = {"dropout"}
DECOMPOSED = {"running", "norms"}
# Networks that return their loss, with the initial values of "tied"; what they are given beside inputs of shape [6].
LOSSES = {
    "loss": (lambda: Loss(Tied(), F.cross_entropy), torch.zeros(BATCH, dtype=torch.long)),
    "loss_alone": (lambda: Alone(Tied(), F.cross_entropy), torch.zeros(BATCH, dtype=torch.long)),
    "huber": (lambda: Loss(Tied(), F.smooth_l1_loss), torch.zeros(BATCH, 5)),
}


def input_of(index, spec, dtype):
    """What the tests' input_of() gives."""
    shape = [BATCH, *spec["shape"]]
    count = math.prod(shape)
    if spec["below"] < 0:
        return torch.tensor([i % 3 != 0 for i in range(count)]).reshape(shape)
    if spec["below"]:
        return torch.tensor([(31 * i * i + 7 * i + 3) % spec["below"] for i in range(count)]).reshape(shape)
    return torch.tensor([math.sin(0.37 * i + 0.1 * index) for i in range(count)], dtype=torch.float64).reshape(shape).to(dtype)


def loss_of(logits):
    classes = logits.shape[-1]
    rows = logits.reshape(-1, classes)
    return F.cross_entropy(rows, torch.tensor([(7 * i + 3) % classes for i in range(len(rows))]))


def summary(tensor):
    """Norm, first and last entry."""
    flat = tensor.detach().double().flatten()
    return [flat.norm().item(), flat[0].item(), flat[-1].item()]


def evaluate(model, inputs):
    model.eval()
    with torch.no_grad():
        loss = loss_of(model(*inputs)).item()
    model.train()
    return loss


def make(name):
    torch.manual_seed(11)
    build, specs, rate = NETWORKS[name]
    model = build().train()
    dtype = next(model.parameters()).dtype
    inputs = [input_of(i, spec, dtype) for i, spec in enumerate(specs)]
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(model, tuple(inputs), dynamic_shapes=tuple({0: batch} for _ in inputs))
    if name in DECOMPOSED:
        program = program.run_decompositions()
    torch.export.save(program, os.path.join(FOLDER, name + ".pt2"))
    expected = {"inputs": specs, "rate": rate, "double": dtype == torch.float64, "evaluation": evaluate(model, inputs)}
    if name in RANDOM:
        return expected
    for step in range(STEPS):
        model.zero_grad()
        loss = loss_of(model(*inputs))
        loss.backward()
        if step == 0:
            expected["loss"] = loss.item()
            expected["gradients"] = {key: summary(value.grad) for key, value in model.named_parameters()}
            expected["buffers"] = {key: summary(value) for key, value in model.named_buffers() if value.numel()}
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad
    expected["trained"] = loss_of(model(*inputs)).item()
    return expected


def make_loss(name):
    torch.manual_seed(11)
    build, labels = LOSSES[name]
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(build().train(), (torch.zeros(BATCH, 6), labels), dynamic_shapes=({0: batch}, {0: batch}))
    torch.export.save(program, os.path.join(FOLDER, name + ".pt2"))


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def main():
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    for name in LOSSES:
        make_loss(name)
    expected = {}
    for name in NETWORKS:
        expected[name] = rounded(make(name))
        print(name, os.path.getsize(os.path.join(FOLDER, name + ".pt2")), expected[name].get("loss"), expected[name].get("trained"), file=sys.stderr)
    lines = [f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in expected.items()]
    with open(os.path.join(FOLDER, "expected.json"), "w") as out:
        out.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
