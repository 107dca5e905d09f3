#!/usr/bin/env python3
"""Writes a PyTorch model as a TorchScript file that `taxon train` can train.

    export_torchscript.py FILE.py:FACTORY OUT.pt --shape 1,28,28 --classes 10

FACTORY is a function or class without arguments that gives a torch.nn.Module from a batch of inputs to logits. It is
scripted (control flow and dropout stay), tried on a batch of zeros, and saved with its present values, which training
starts from. Parameters with requires_grad=False stay as they are.
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


def export(model, shape, classes, path):
    if not any(parameter.requires_grad for parameter in model.parameters()):
        sys.exit("the model has no parameter to train")
    script = torch.jit.script(model)
    script.eval()  # a trial in training mode would change batch-norm statistics
    with torch.no_grad():
        logits = script(torch.zeros([2, *shape]))
    if not isinstance(logits, torch.Tensor) or list(logits.shape) != [2, classes]:
        sys.exit(f"the model must map {[2, *shape]} to {[2, classes]}, but gave {list(getattr(logits, 'shape', [])) or type(logits)}")
    script.train()
    script.save(path)
    return sum(parameter.numel() for parameter in model.parameters())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("factory", metavar="FILE.py:FACTORY")
    parser.add_argument("out", metavar="OUT.pt")
    parser.add_argument("--shape", default="1,28,28", help="shape of one sample (default %(default)s)")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    shape = [int(extent) for extent in arguments.shape.split(",")]
    count = export(load_factory(arguments.factory)(), shape, arguments.classes, arguments.out)
    print(f"{arguments.out}: {count:,} parameters")


if __name__ == "__main__":
    main()
