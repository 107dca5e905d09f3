#!/usr/bin/env python3
"""Records what PyTorch computes for a small GPT-2: loss, and of each parameter's gradient three sums. The network is
written here once more, of PyTorch's own layers, so that the recorded values (gpt.txt) are nothing of Taxon's.

    /usr/bin/python3 tests/model/recorded/record_gpt.py > tests/model/recorded/gpt.txt      (Debian's python3-torch)
"""

import math

import torch
from torch import nn

CLASSES, CONTEXT, LAYERS, WIDTH, HEADS, SAMPLES = 11, 6, 2, 8, 2, 3


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, HEADS, width // HEADS).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        weights = q @ k.transpose(-2, -1) / math.sqrt(width // HEADS)
        mask = torch.tril(torch.ones(tokens, tokens))
        weights = weights.masked_fill(mask == 0, float("-inf")).softmax(dim=-1)
        return self.c_proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = Perceptron()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(CLASSES, WIDTH)
        self.wpe = nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()


def weights(count, parameter):
    """What the test in C++ gives parameter number `parameter`, element by element."""
    return [0.5 * math.sin(1.0 + 3 * parameter + 0.7 * i) for i in range(count)]


def main():
    model = Gpt()
    with torch.no_grad():
        for p, parameter in enumerate(model.parameters()):
            values = torch.tensor(weights(parameter.numel(), p), dtype=torch.float32)
            parameter.copy_(values.view_as(parameter))
    tokens = torch.tensor([[(5 * s + 3 * t + t * t) % CLASSES for t in range(CONTEXT + 1)] for s in range(SAMPLES)])
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, CLASSES), tokens[:, 1:].reshape(-1))
    loss.backward()
    print(f"loss {loss.item():.9g}")
    for name, parameter in model.named_parameters():
        gradient = parameter.grad.double().flatten()
        ramp = torch.arange(1, gradient.numel() + 1, dtype=torch.float64)
        print(f"{name} {gradient.sum().item():.9g} {gradient.norm().item():.9g} {(gradient * ramp).sum().item():.9g}")


main()
