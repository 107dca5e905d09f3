#!/usr/bin/python3
"""torch.distributed.pipelining over Gloo, training the network of bench/recipes/cd-dnn.yaml on Fashion-MNIST in stages.

Started once per stage with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 takes `train OPTIONS` (JSON, see Options) on its standard
input, trains the model from given weights on the batches that Taxon takes, and answers with a line of JSON: the seconds and the loss of each
step, and how far the weights at the end are from those of a safetensors file, relative to the way that they went."""
import argparse
import dataclasses
import json
import os
import struct
import sys
import time

import numpy
import torch
import torch.distributed
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.functional import cross_entropy

sys.dont_write_bytecode = True
from ddp import endless_batches, load  # noqa: E402

LAYERS = 8
SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


@dataclasses.dataclass
class Options:
    schedule: str
    micro_batches: int
    steps: int
    weights: str  # safetensors
    rate: float
    compared: str = ""  # safetensors: Taxon's weights at the end
    batch: int = 256
    momentum: float = 0.9
    seed: int = 1


def read(path):
    """Parameters by name."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        head = json.loads(file.read(length))
        values = file.read()
    return {name: torch.from_numpy(numpy.frombuffer(values[slice(*at["data_offsets"])], numpy.float32).copy()).reshape(at["shape"])
            for name, at in head.items() if name != "__metadata__"}


class Stage(nn.Sequential):
    """The layers of a stage, two of eight for each of four; names are Taxon's."""

    def __init__(self, stage, stages, weights):
        super().__init__()
        first, end = (at * LAYERS // stages + 1 for at in (stage, stage + 1))
        if stage == 0:
            self.add_module("flatten", nn.Flatten())
        for number in range(first, end):
            rows, columns = weights[f"fc{number}.weight"].shape
            self.add_module(f"fc{number}", nn.Linear(columns, rows))
            if number < LAYERS:
                self.add_module(f"sigmoid{number}", nn.Sigmoid())
        self.load_state_dict({name: weights[name] for name in self.state_dict()})


class Trainer:
    def __init__(self, args):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.set_num_threads(args.threads)
        torch.distributed.init_process_group("gloo")
        self.images, self.labels = load(args.data, "train")

    def train(self, options):
        weights = read(options.weights)
        module = Stage(self.rank, self.world, weights)
        stage = PipelineStage(module, self.rank, self.world, torch.device("cpu"))
        schedule = SCHEDULES[options.schedule](stage, options.micro_batches, loss_fn=cross_entropy)
        optimizer = torch.optim.SGD(module.parameters(), lr=options.rate, momentum=options.momentum)
        source = endless_batches(options.seed, len(self.labels), options.batch, 0, 1)
        seconds, losses = [], []
        torch.distributed.barrier()
        for _ in range(options.steps):
            begin = time.perf_counter()
            chosen, _ = next(source)
            optimizer.zero_grad(set_to_none=True)
            if self.rank == 0:
                schedule.step(self.images.index_select(0, chosen))
            elif self.rank == self.world - 1:
                parts = []
                schedule.step(target=self.labels.index_select(0, chosen), losses=parts)
                losses.append(torch.stack([part.detach() for part in parts]).mean())
            else:
                schedule.step()
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
        together = torch.stack(losses) if losses else torch.zeros(options.steps)
        torch.distributed.all_reduce(together)
        return {"seconds": seconds, "losses": together.tolist(), "distance": self.distance(module, weights, options), "version": torch.__version__}

    @staticmethod
    def distance(module, before, options):
        """The largest of all parameters' of all stages."""
        if not options.compared:
            return None
        theirs = read(options.compared)
        far = [((theirs[name] - value).norm() / (value - before[name]).norm().clamp(min=1e-30)).item() for name, value in module.state_dict().items()]
        worst = torch.tensor([max(far)])
        torch.distributed.all_reduce(worst, torch.distributed.ReduceOp.MAX)
        return worst.item()

    def serve(self):
        while True:
            request = [sys.stdin.readline() if self.rank == 0 else None]
            torch.distributed.broadcast_object_list(request)  # the others sleep in the kernel until it comes
            name, _, options = request[0].strip().partition(" ")
            if name != "train":
                return
            result = self.train(Options(**json.loads(options)))
            if self.rank == 0:
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--threads", type=int, default=1)
    Trainer(parser.parse_args()).serve()
