#!/usr/bin/env python3
"""Records what PyTorch computes for small networks: the loss of a step in double precision, of each parameter's gradient three sums, the loss in
evaluation mode afterwards, and of each parameter's initial values three moments. Networks are torchvision's, or written here once more of PyTorch's
own layers, so that the recorded values (NAME.txt) are nothing of Taxon's.

    /usr/bin/python3 tests/model/recorded/record.py tests/model/recorded      (Debian's python3-torch and python3-torchvision)
"""

import math
import sys
from pathlib import Path

import torch
import torchvision
from torch import nn

CLASSES, CONTEXT, WIDTH, SAMPLES = 11, 6, 8, 3
IMAGE = (3, 8, 12)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        weights = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mask = torch.tril(torch.ones(tokens, tokens))
        weights = weights.masked_fill(mask == 0, float("-inf")).softmax(dim=-1)
        return self.c_proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Perceptron(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Perceptron(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """GPT-2, with its published initial values."""

    def __init__(self, width, layers=2, heads=2):
        super().__init__()
        self.wte = nn.Embedding(CLASSES, width)
        self.wpe = nn.Embedding(CONTEXT, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2 * layers) if name.endswith("c_proj.weight") else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()


class Lstm(nn.Module):
    """The layers, and their initial values, of PyTorch's example word_language_model."""

    def __init__(self, width, layers=2, tied=False):
        super().__init__()
        self.encoder = nn.Embedding(CLASSES, width)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True)
        self.decoder = nn.Linear(width, CLASSES)
        if tied:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, tokens):
        return self.decoder(self.rnn(self.encoder(tokens))[0])


class Vit(torchvision.models.VisionTransformer):
    """Torchvision's takes squares alone."""

    def __init__(self, width, layers=2, heads=2, patch=4):
        super().__init__(image_size=patch, patch_size=patch, num_layers=layers, num_heads=heads, hidden_dim=width, mlp_dim=4 * width, num_classes=CLASSES)
        tokens = 1 + (IMAGE[1] // patch) * (IMAGE[2] // patch)
        self.encoder.pos_embedding = nn.Parameter(torch.empty(1, tokens, width).normal_(std=0.02))

    def _process_input(self, x):
        return self.conv_proj(x).flatten(2).transpose(1, 2)


def resnet(name, is_small):
    def make(_):
        network = getattr(torchvision.models, name)(num_classes=CLASSES)
        if is_small:
            network.conv1 = nn.Conv2d(IMAGE[0], 64, 3, padding=1, bias=False)
            nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
            network.maxpool = nn.Identity()
        return network

    return make


# How each is made of its width, and the extents of its samples.
NETWORKS = {
    "gpt": (Gpt, (CONTEXT,)),
    "lstm": (Lstm, (CONTEXT,)),
    "lstm-tied": (lambda width: Lstm(width, tied=True), (CONTEXT,)),
    "vit": (Vit, IMAGE),
    "resnet50": (resnet("resnet50", is_small=True), IMAGE),
    "resnet50-7x7": (resnet("resnet50", is_small=False), (3, 32, 40)),
}


def values(parameter, number):
    """What the test in C++ gives parameter `number`, element by element."""
    scale = 0.5 if parameter.dim() < 2 else 1 / math.sqrt(parameter.numel() / parameter.shape[0])
    i = torch.arange(parameter.numel(), dtype=torch.float64)
    return (scale * torch.sin(1 + 3 * number + 0.7 * i)).view_as(parameter)


def batch(shape):
    if len(shape) == 1:
        tokens = torch.tensor([[(5 * s + 3 * t + t * t) % CLASSES for t in range(CONTEXT + 1)] for s in range(SAMPLES)])
        return tokens[:, :-1], tokens[:, 1:].reshape(-1)
    i = torch.arange(SAMPLES * math.prod(shape), dtype=torch.float64)
    return torch.sin(0.37 * i).float().double().view(SAMPLES, *shape), torch.tensor([(7 * s + 3) % CLASSES for s in range(SAMPLES)])


def record(name, file):
    make, shape = NETWORKS[name]
    torch.manual_seed(1)
    wide = make(64)
    for parameter_name, parameter in wide.named_parameters():
        x = parameter.detach().double()
        print("initial", parameter_name, *(f"{v:.6g}" for v in (x.mean(), x.std(unbiased=False), x.abs().mean())), file=file)
    network = make(WIDTH).double()
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):
            parameter.copy_(values(parameter, number))
    inputs, labels = batch(shape)

    def loss():
        return nn.functional.cross_entropy(network(inputs).reshape(-1, CLASSES), labels)

    found = loss()
    found.backward()
    print(f"loss {found.item():.12g}", file=file)
    for parameter_name, parameter in network.named_parameters():
        gradient = parameter.grad.flatten()
        ramp = torch.arange(1, gradient.numel() + 1, dtype=torch.float64)
        print("gradient", parameter_name, *(f"{v:.12g}" for v in (gradient.sum(), gradient.norm(), gradient @ ramp)), file=file)
    network.eval()
    with torch.no_grad():
        print(f"evaluation {loss().item():.12g}", file=file)


def main():
    folder = Path(sys.argv[1])
    for name in NETWORKS:
        with open(folder / f"{name}.txt", "w") as file:
            record(name, file)


main()
