#!/usr/bin/python3
"""PyTorch DistributedDataParallel over Gloo, training the cnn of docs/benchmarks.md on Fashion-MNIST.

Started once per worker with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 takes `train STEPS ALONE_STEPS TEST_SAMPLES`
on its standard input, trains a fresh model and answers with a line of JSON: the seconds of each step, of each of ALONE_STEPS
steps without communication, and the accuracy on that many test samples. `race OPTIONS` (JSON, see Race) trains on the batches that
Taxon takes, with its schedule, until a test accuracy is reached. Written as a user who cares for speed would: data in
memory, batches by index_select, gradients as views of the buckets (no copy).
"""
import argparse
import dataclasses
import gzip
import json
import math
import os
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


def batches(count, batch, rank, world, seed):
    """This rank's index batches, epoch after epoch; all ranks cut the same permutation."""
    epoch = 0
    while True:
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch))
        for begin in range(0, count - batch * world + 1, batch * world):
            yield order[begin + rank * batch: begin + (rank + 1) * batch]
        epoch += 1


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


HOOKS = {"none": parallel_dense, "fp16": parallel_fp16, "powersgd": parallel_powersgd}


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

    def rate(self, samples, total):
        if samples < self.warmup:
            return self.lr * samples / self.warmup
        return self.lr * 0.5 * (1 + math.cos(math.pi * (samples - self.warmup) / (total - self.warmup)))

    def batches(self, count, rank, world):
        """(samples before it, indices of this rank, share of the mean gradient), to the end."""
        for epoch in range(self.epochs):
            order = torch.tensor(epoch_order(self.seed, epoch, count))
            for first in range(0, count, self.batch):
                size = min(self.batch, count - first)
                begin, end = part(size, world, rank)
                yield epoch * count + first, order[first + begin:first + end], (end - begin) * world / size


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.set_num_threads(args.threads)
        torch.distributed.init_process_group("gloo")
        self.images, self.labels = load(args.data, "train")
        self.test = load(args.data, "t10k")

    def timed_steps(self, model, optimizer, source, count):
        seconds, loss = [], None
        for _ in range(count):
            begin = time.perf_counter()
            chosen = next(source)
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(model(self.images.index_select(0, chosen)), self.labels.index_select(0, chosen))
            loss.backward()
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
        return seconds, loss.item() if loss is not None else None

    def train(self, steps, alone_steps, test_samples):
        torch.manual_seed(self.args.seed)
        model = cnn()
        parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=self.args.lr, momentum=0.9)
        source = batches(len(self.labels), self.args.batch, self.rank, self.world, self.args.seed)
        seconds, loss = self.timed_steps(parallel, optimizer, source, steps)
        result = {"seconds": seconds, "train_loss": loss, "parameters": sum(p.numel() for p in model.parameters())}
        if self.rank == 0 and test_samples:
            model.eval()
            result["test_accuracy"] = right_answers(model, *(part[:test_samples] for part in self.test)) / test_samples
            model.train()
        torch.distributed.barrier()
        with parallel.no_sync():  # the same work without communication; the weights are of no use afterwards
            result["alone_seconds"], _ = self.timed_steps(parallel, optimizer, source, alone_steps)
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
        torch.manual_seed(options.seed)
        model = cnn()
        parallel = HOOKS[options.hook](model)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0, momentum=options.momentum, weight_decay=options.weight_decay)
        count = len(self.labels)
        steps, seconds, tests = 0, 0.0, []
        for samples, chosen, share in options.batches(count, self.rank, self.world):
            begin = time.perf_counter()
            optimizer.param_groups[0]["lr"] = options.rate(samples, options.epochs * count)
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(parallel(self.images.index_select(0, chosen)), self.labels.index_select(0, chosen))
            (loss * share if share != 1 else loss).backward()
            optimizer.step()
            seconds += time.perf_counter() - begin
            steps += 1
            after = min(samples + options.batch, samples // count * count + count)
            if samples // options.test_every != after // options.test_every:
                tests.append({"samples": after, "seconds": seconds, "accuracy/test": self.tested(model, options.test_samples)})
                if tests[-1]["accuracy/test"] >= options.target or 0 < options.most_samples <= after:
                    break
        return {"steps": steps, "seconds": seconds, "tests": tests, "parameters": sum(p.numel() for p in model.parameters())}

    def serve(self):
        while True:
            request = [sys.stdin.readline() if self.rank == 0 else None]
            torch.distributed.broadcast_object_list(request)  # the others sleep in the kernel until it comes
            name, _, options = request[0].strip().partition(" ")
            if name not in ("train", "race"):
                return
            result = self.train(*map(int, options.split())) if name == "train" else self.race(Race(**json.loads(options)))
            if self.rank == 0:
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--batch", type=int, default=64, help="per worker")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    Trainer(parser.parse_args()).serve()
