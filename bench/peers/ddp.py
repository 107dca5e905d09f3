#!/usr/bin/python3
"""PyTorch DistributedDataParallel over Gloo, training the cnn of docs/benchmarks.md on Fashion-MNIST.

Started once per worker with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 takes `train STEPS ALONE_STEPS TEST_SAMPLES`
on its standard input, trains a fresh model and answers with a line of JSON: the seconds of each step, of each of ALONE_STEPS
steps without communication, and the accuracy on that many test samples. Written as a user who cares for speed would: data in
memory, batches by index_select, gradients as views of the buckets (no copy).
"""
import argparse
import gzip
import json
import os
import sys
import time

import numpy
import torch
import torch.distributed
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

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


def accuracy(model, images, labels):
    with torch.no_grad():
        right = sum((model(images[i:i + 500]).argmax(1) == labels[i:i + 500]).sum().item() for i in range(0, len(labels), 500))
    return right / len(labels)


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
            result["test_accuracy"] = accuracy(model, *(part[:test_samples] for part in self.test))
            model.train()
        torch.distributed.barrier()
        with parallel.no_sync():  # the same work without communication; the weights are of no use afterwards
            result["alone_seconds"], _ = self.timed_steps(parallel, optimizer, source, alone_steps)
        return result

    def serve(self):
        while True:
            request = [sys.stdin.readline() if self.rank == 0 else None]
            torch.distributed.broadcast_object_list(request)  # the others sleep in the kernel until it comes
            words = request[0].split()
            if words[:1] != ["train"]:
                return
            result = self.train(*map(int, words[1:]))
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
