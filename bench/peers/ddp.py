#!/usr/bin/python3
"""PyTorch DistributedDataParallel over Gloo, training the cnn of docs/benchmarks.md on Fashion-MNIST.

Started once per worker with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 takes `train OPTIONS` (JSON, see Steps) on its standard
input, trains a fresh model and answers with a line of JSON: the seconds and the loss of each step, the seconds of each step without
communication, and the accuracy on the test samples. `race OPTIONS` (see Race) trains with a schedule until a test accuracy is reached. Both
begin with given weights and take the batches that Taxon takes. Written as a user who cares for speed would: data in memory, batches by
index_select, gradients as views of the buckets (no copy).
"""
import argparse
import dataclasses
import gzip
import itertools
import json
import math
import os
import struct
import sys
import time

import numpy
import torch
import torch.distributed
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

sys.dont_write_bytecode = True
from order import epoch_order, part  # noqa: E402

MEAN, DEVIATION = 0.2860, 0.3530


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 1024), nn.ReLU(), nn.Linear(1024, 10))


def read_idx(folder, name, header):
    with gzip.open(os.path.join(folder, name)) as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=header)


def load(folder, part):
    images = read_idx(folder, f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = read_idx(folder, f"{part}-labels-idx1-ubyte.gz", 8)
    return (torch.from_numpy(images.astype(numpy.float32) / 255) - MEAN) / DEVIATION, torch.from_numpy(labels.astype(numpy.int64))


def begin_with(model, path):
    """Gives the parameters the values of a safetensors file, whose names are the layers' kinds and numbers: conv1.weight, fc2.bias."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        head = json.loads(file.read(length))
        values = file.read()
    kinds = {"conv": [m for m in model if isinstance(m, nn.Conv2d)], "fc": [m for m in model if isinstance(m, nn.Linear)]}
    with torch.no_grad():
        for name, at in head.items():
            if name == "__metadata__":
                continue
            layer, _, member = name.partition(".")
            kind, number = layer[:-1], int(layer[-1])
            begin, end = at["data_offsets"]
            target = getattr(kinds[kind][number - 1], member)
            target.copy_(torch.from_numpy(numpy.frombuffer(values[begin:end], numpy.float32).copy()).reshape(target.shape))


def fresh_model(weights, seed, memory_format):
    torch.manual_seed(seed)
    model = cnn()
    if weights:
        begin_with(model, weights)
    return model.to(memory_format=FORMATS[memory_format])


def endless_batches(seed, count, batch, rank, world):
    """(indices of this rank, share of the mean gradient), epoch after epoch, as Taxon cuts its global batches."""
    for epoch in itertools.count():
        order = torch.tensor(epoch_order(seed, epoch, count))
        for first in range(0, count, batch):
            size = min(batch, count - first)
            begin, end = part(size, world, rank)
            yield order[first + begin:first + end], (end - begin) * world / size


def right_answers(model, images, labels):
    with torch.no_grad():
        return sum((model(images[i:i + 500]).argmax(1) == labels[i:i + 500]).sum().item() for i in range(0, len(labels), 500))


def parallel_dense(model):
    return DistributedDataParallel(model, gradient_as_bucket_view=True)


def parallel_fp16(model):
    parallel = parallel_dense(model)
    parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return parallel


def parallel_powersgd(model):
    """With warm start and error feedback, as early as these allow, at the rank of recipes/systems/powersgd.yaml. In one bucket: the hook's
    second and third all-reduce start when the one before ends, so those of two buckets come in another order at each rank, and Gloo
    takes one's bytes for the other's."""
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 1 << 26
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=64)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return parallel


FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
HOOKS = {"none": parallel_dense, "fp16": parallel_fp16, "powersgd": parallel_powersgd}


@dataclasses.dataclass
class Steps:
    """Steps at a constant rate."""
    steps: int
    alone_steps: int  # without communication, afterwards
    test_samples: int
    lr: float
    weights: str = ""  # safetensors; empty: drawn from the seed
    memory_format: str = "contiguous"
    seed: int = 1
    batch: int = 64  # of a worker
    momentum: float = 0.9


@dataclasses.dataclass
class Race:
    """Plain synchronous training of recipes/systems: cosine to zero after a linear warm-up, rates by samples."""
    hook: str
    target: float
    test_every: int  # training samples
    test_samples: int
    most_samples: int  # ends after so many, whatever was reached; 0: no limit
    epochs: int = 3
    seed: int = 1
    batch: int = 128  # of all workers
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 0.0005
    warmup: int = 6000  # samples
    weights: str = ""
    memory_format: str = "contiguous"

    def rate(self, samples, total):
        if samples < self.warmup:
            return self.lr * samples / self.warmup
        return self.lr * 0.5 * (1 + math.cos(math.pi * (samples - self.warmup) / (total - self.warmup)))

    def batches(self, count, rank, world):
        """(samples before it, indices of this rank, share of the mean gradient), to the end."""
        source = endless_batches(self.seed, count, self.batch, rank, world)
        for epoch in range(self.epochs):
            for first in range(0, count, self.batch):
                yield epoch * count + first, *next(source)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.set_num_threads(args.threads)
        torch.distributed.init_process_group("gloo")
        self.images, self.labels = load(args.data, "train")
        self.test = load(args.data, "t10k")

    def inputs(self, chosen, memory_format):
        return self.images.index_select(0, chosen).contiguous(memory_format=memory_format)

    def timed_steps(self, model, optimizer, source, count, memory_format):
        """Seconds and losses. What a loss is, is read when all steps are done."""
        seconds, losses = [], []
        for _ in range(count):
            begin = time.perf_counter()
            chosen, share = next(source)
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(model(self.inputs(chosen, memory_format)), self.labels.index_select(0, chosen))
            (loss * share if share != 1 else loss).backward()
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
            losses.append(loss.detach() * share)
        return seconds, losses

    def mean_losses(self, losses):
        """Of the global batches."""
        together = torch.stack(losses)
        torch.distributed.all_reduce(together)
        return (together / self.world).tolist()

    def train(self, options):
        model = fresh_model(options.weights, options.seed, options.memory_format)
        parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=options.lr, momentum=options.momentum)
        source = endless_batches(options.seed, len(self.labels), options.batch * self.world, self.rank, self.world)
        memory_format = FORMATS[options.memory_format]
        seconds, losses = self.timed_steps(parallel, optimizer, source, options.steps, memory_format)
        result = {"seconds": seconds, "losses": self.mean_losses(losses), "parameters": sum(p.numel() for p in model.parameters())}
        if options.test_samples:  # all at once: a rank that waited would be found by the next timed steps
            model.eval()
            result["test_accuracy"] = right_answers(model, *(part[:options.test_samples] for part in self.test)) / options.test_samples
            model.train()
        torch.distributed.barrier()
        with parallel.no_sync():  # the same work without communication; the weights are of no use afterwards
            result["alone_seconds"], _ = self.timed_steps(parallel, optimizer, source, options.alone_steps, memory_format)
        return result

    def tested(self, model, samples):
        """The accuracy on the first test samples, of which each rank takes a part."""
        begin, end = part(samples, self.world, self.rank)
        model.eval()
        right = torch.tensor([right_answers(model, *(values[begin:end] for values in self.test))])
        model.train()
        torch.distributed.all_reduce(right)  # nobody goes on before all have tested
        return right.item() / samples

    def race(self, options):
        """Seconds are of training alone, without tests."""
        model = fresh_model(options.weights, options.seed, options.memory_format)
        memory_format = FORMATS[options.memory_format]
        parallel = HOOKS[options.hook](model)
        # As Taxon, which does not shrink biases.
        decayed, plain = ([p for p in parallel.parameters() if (p.dim() > 1) == matrix] for matrix in (True, False))
        optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": options.weight_decay}, {"params": plain}], lr=0, momentum=options.momentum)
        count = len(self.labels)
        steps, seconds, tests, first = 0, 0.0, [], None
        for samples, chosen, share in options.batches(count, self.rank, self.world):
            begin = time.perf_counter()
            for group in optimizer.param_groups:
                group["lr"] = options.rate(samples, options.epochs * count)
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(parallel(self.inputs(chosen, memory_format)), self.labels.index_select(0, chosen))
            (loss * share if share != 1 else loss).backward()
            optimizer.step()
            seconds += time.perf_counter() - begin
            first = loss.detach() * share if steps == 0 else first
            steps += 1
            after = min(samples + options.batch, samples // count * count + count)
            if samples // options.test_every != after // options.test_every:
                tests.append({"samples": after, "seconds": seconds, "accuracy/test": self.tested(model, options.test_samples)})
                if tests[-1]["accuracy/test"] >= options.target or 0 < options.most_samples <= after:
                    break
        return {"steps": steps, "seconds": seconds, "tests": tests, "first_loss": self.mean_losses([first])[0], "parameters": sum(p.numel() for p in model.parameters())}

    def serve(self):
        while True:
            request = [sys.stdin.readline() if self.rank == 0 else None]
            torch.distributed.broadcast_object_list(request)  # the others sleep in the kernel until it comes
            name, _, options = request[0].strip().partition(" ")
            if name not in ("train", "race"):
                return
            result = self.train(Steps(**json.loads(options))) if name == "train" else self.race(Race(**json.loads(options)))
            if self.rank == 0:
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--threads", type=int, default=1)
    Trainer(parser.parse_args()).serve()
