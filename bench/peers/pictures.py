#!/usr/bin/python3
"""Writes seeded pictures as JPEG files that compress as photographs do: sums of smooth random fields, coarse to fine.

pictures.py FOLDER COUNT EXTENT: COUNT of EXTENT x EXTENT pixels in FOLDER/train, ten in FOLDER/test, in ten classes each."""
import os
import sys

import numpy
from PIL import Image

CLASSES = 10


def picture(random, extent):
    total = numpy.zeros((extent, extent, 3), numpy.float32)
    cells, weight = 4, 60.0
    while cells <= extent:
        coarse = Image.fromarray(random.integers(0, 256, (cells, cells, 3), numpy.uint8))
        total += (numpy.asarray(coarse.resize((extent, extent), Image.BICUBIC), numpy.float32) / 127.5 - 1) * weight
        cells, weight = cells * 2, weight * 0.6
    return Image.fromarray(numpy.clip(total + 128, 0, 255).astype(numpy.uint8))


def write(folder, count, extent, seed):
    random = numpy.random.default_rng(seed)
    for label in range(CLASSES):
        os.makedirs(os.path.join(folder, str(label)), exist_ok=True)
    for i in range(count):
        picture(random, extent).save(os.path.join(folder, str(i % CLASSES), f"{i:05}.jpg"), "JPEG", quality=90)


if __name__ == "__main__":
    write(os.path.join(sys.argv[1], "train"), int(sys.argv[2]), int(sys.argv[3]), 1)
    write(os.path.join(sys.argv[1], "test"), CLASSES, int(sys.argv[3]), 2)
