#!/usr/bin/env python3
"""Writes a PyTorch model as a file that `taxon train` trains: copy this file, or the one call in export().

    export_pt2.py FILE.py:FACTORY OUT.pt2 --shape 1,28,28

FACTORY is a function or class without arguments that gives a torch.nn.Module from a batch of inputs, [batch, *SHAPE], to logits, [batch, classes].
Its present values are where training starts. Parameters with requires_grad=False stay as they are. Needs PyTorch 2.9 or newer.
"""
import argparse
import importlib.util
import sys

import torch


def load_factory(place):
    path, _, name = place.rpartition(":")
    if not path:
        sys.exit(f"{place}: expected FILE.py:FACTORY")
    spec = importlib.util.spec_from_file_location("exported_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        sys.exit(f"{path} has no {name}")
    return getattr(module, name)


def export(model, shape, path):
    """In training mode, so that dropout and batch norm are in the graph as they train, and for batches of any size."""
    model.train()
    inputs = torch.zeros([2, *shape], dtype=next(model.parameters()).dtype)
    program = torch.export.export(model, (inputs,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    torch.export.save(program, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("factory", metavar="FILE.py:FACTORY")
    parser.add_argument("out", metavar="OUT.pt2")
    parser.add_argument("--shape", default="1,28,28", help="shape of one sample (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the initial values (default %(default)s)")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    model = load_factory(arguments.factory)()
    export(model, [int(extent) for extent in arguments.shape.split(",")], arguments.out)
    print(f"{arguments.out}: {sum(parameter.numel() for parameter in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
