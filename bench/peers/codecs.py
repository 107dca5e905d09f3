#!/usr/bin/python3
"""torch.topk, and a Count-Sketch as nikitaivkin/csh has it (csvec: stored hashes, bincount, gather and median), on one thread.

Takes `topk encode COUNT DENSITY REPEATS` or `sketch encode|decode COUNT COLUMNS REPEATS` per line, and answers with the seconds of each.
"""
import json
import sys
import time

import torch

ROWS = 5


def gradient(count):
    u = 2 * torch.rand(count, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 1
    return (u**3 / (1.0001 - u.abs())).float()


def seconds_of(repeats, body):
    """And what the last one came to."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = body()
        seconds.append(time.perf_counter() - begin)
    return seconds, result


class Sketch:
    def __init__(self, count, columns):
        random = torch.Generator().manual_seed(42)
        self.buckets = torch.randint(0, columns, (ROWS, count), generator=random)
        self.signs = (2 * torch.randint(0, 2, (ROWS, count), generator=random) - 1).float()
        self.columns = columns

    def encode(self, values):
        return torch.stack([torch.bincount(self.buckets[r], self.signs[r] * values, minlength=self.columns) for r in range(ROWS)])

    def decode(self, table):
        estimates = torch.stack([table[r, self.buckets[r]] * self.signs[r] for r in range(ROWS)])
        return estimates.median(dim=0).values


def answer(what, operation, count, number, repeats):
    values = gradient(count)
    if what == "topk":
        k = max(1, round(number * count))
        seconds, (largest, _) = seconds_of(repeats, lambda: torch.topk(values.abs(), k, sorted=False))
        return {"seconds": seconds, "verified": bool(largest.min() == torch.kthvalue(values.abs(), count - k + 1).values)}
    sketch = Sketch(count, int(number))
    table = sketch.encode(values)
    body = (lambda: sketch.encode(values)) if operation == "encode" else (lambda: sketch.decode(table))
    largest = values.abs().argmax()
    near = abs(sketch.decode(table)[largest] / values[largest] - 1) < 0.5
    return {"seconds": seconds_of(repeats, body)[0], "verified": bool(near)}


def main():
    torch.set_num_threads(1)
    for line in sys.stdin:
        what, operation, count, number, repeats = line.split()
        print(json.dumps(answer(what, operation, int(count), float(number), int(repeats))), flush=True)


if __name__ == "__main__":
    main()
