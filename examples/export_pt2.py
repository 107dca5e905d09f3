#!/usr/bin/env python3
"""Writes a PyTorch model as a file that `taxon train` trains: copy this file, or the one call in export().

    export_pt2.py FILE.py:FACTORY OUT.pt2 --shape 1,28,28
    export_pt2.py FILE.py:FACTORY OUT.pt2 --shape int64:128 bool:128      # two tensors, of tokens and of flags

FACTORY is a function or class without arguments that gives a torch.nn.Module from a batch of inputs, [batch, *SHAPE], to logits, [batch, classes]. One that
returns its own loss (docs/models.md) takes the labels as its last tensor: --shape 1,28,28 int64: for one label a sample.
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


def zeros(shape, dtype):
    """Of two samples; "int64:128", or "128" for numbers of the model's type."""
    kind, _, extents = shape.rpartition(":")
    return torch.zeros([2, *(int(extent) for extent in extents.split(",") if extent)], dtype=getattr(torch, kind) if kind else dtype)


def export(model, shapes, path):
    """In training mode, so that dropout and batch norm are in the graph as they train, and for batches of any size."""
    model.train()
    inputs = tuple(zeros(shape, next(model.parameters()).dtype) for shape in shapes)
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(model, inputs, dynamic_shapes=tuple({0: batch} for _ in inputs))
    torch.export.save(program, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("factory", metavar="FILE.py:FACTORY")
    parser.add_argument("out", metavar="OUT.pt2")
    parser.add_argument("--shape", nargs="+", default=["1,28,28"], metavar="[TYPE:]EXTENTS", help="shape of one sample, of each tensor (default 1,28,28)")
    parser.add_argument("--seed", type=int, default=1, help="of the initial values (default %(default)s)")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    model = load_factory(arguments.factory)()
    export(model, arguments.shape, arguments.out)
    print(f"{arguments.out}: {sum(parameter.numel() for parameter in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
