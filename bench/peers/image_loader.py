#!/usr/bin/python3
"""A folder of JPEG files as a user of Python loads it for training: decoded by Pillow, cropped and flipped by chance, normalised, as torchvision does it.

image_loader.py OPTIONS (JSON, see Options) answers each line of its standard input with a line of JSON:
load {"threads", "batch", "batches", "unmeasured", "way"}: seconds of so many batches, after some that are not measured; ways: see WAYS.
compare {"file", "count"}: how far the first samples of a file of Taxon's are from those of this program with the same draws, in grey levels, at worst."""
import concurrent.futures
import dataclasses
import itertools
import json
import os
import random
import sys
import time

import numpy
import torch
from PIL import Image

sys.dont_write_bytecode = True
from order import stream  # noqa: E402


@dataclasses.dataclass
class Options:
    folder: str
    channels: int
    padding: int
    size: int
    mean: list
    deviation: list
    seed: int = 1


def files_of(folder):
    """Class by class, by name."""
    return [os.path.join(folder, name, file) for name in sorted(os.listdir(folder)) for file in sorted(os.listdir(os.path.join(folder, name)))]


class Images(torch.utils.data.Dataset):
    def __init__(self, options):
        self.options, self.files = options, files_of(os.path.join(options.folder, "train"))
        shape = (options.channels, 1, 1)
        self.mean, self.deviation = (numpy.asarray(values, numpy.float32).reshape(shape) * 255 for values in (options.mean, options.deviation))

    def __len__(self):
        return len(self.files)

    def ways(self):
        """Into how many places a cut can fall."""
        with Image.open(self.files[0]) as image:
            return image.height + 2 * self.options.padding - self.options.size + 1

    def sample(self, index, top, left, flips):
        """`top` and `left` of the cut in the padded picture."""
        options = self.options
        with Image.open(self.files[index]) as image:
            image = image.convert("L" if options.channels == 1 else "RGB")
            if options.padding == 0:
                image = image.crop((left, top, left + options.size, top + options.size))
            pixels = numpy.asarray(image)
        values = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        if options.padding > 0:
            around = (options.padding, options.padding)
            values = numpy.pad(values, ((0, 0), around, around))[:, top:top + options.size, left:left + options.size]
        values = (values.astype(numpy.float32) - self.mean) / self.deviation
        return numpy.ascontiguousarray(values[:, :, ::-1] if flips else values)

    def __getitem__(self, index):
        ways = self.places
        return torch.from_numpy(self.sample(index, random.randrange(ways), random.randrange(ways), random.random() < 0.5))

    def drawn_as_taxon(self, index):
        """What Rng(seed, "transforms of epoch 0", index) makes of random_crop and horizontal_flip (src/data/transforms)."""
        ways, draws = self.ways(), [int(one) for one in stream(self.options.seed, "transforms of epoch 0", index, 3)]
        top, left = (draw * ways >> 64 for draw in draws[:2])
        return self.sample(index, top, left, (draws[2] >> 11) * 2.0**-53 < 0.5)


def alone(images, threads, order):
    """One thread."""
    for chosen in order:
        yield torch.stack([images[index] for index in chosen])


def by_threads(images, threads, order):
    """Pillow lets go of the interpreter's lock while it decodes."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        waiting = []
        for chosen in order:
            waiting.append([pool.submit(images.__getitem__, index) for index in chosen])
            if len(waiting) > 2:
                yield torch.stack([one.result() for one in waiting.pop(0)])
        for futures in waiting:
            yield torch.stack([one.result() for one in futures])


def by_processes(images, threads, order):
    """torch's own."""
    yield from torch.utils.data.DataLoader(images, batch_sampler=order, num_workers=threads)


WAYS = {"alone": alone, "threads": by_threads, "processes": by_processes}


def batches_of(size, batch, count):
    shuffled = itertools.chain.from_iterable(random.sample(range(size), size) for _ in itertools.count())
    return [list(itertools.islice(shuffled, batch)) for _ in range(count)]


def load(images, threads, batch, batches, unmeasured, way):
    images.places = images.ways()
    begin = time.perf_counter()
    for taken, found in enumerate(WAYS[way](images, threads, batches_of(len(images), batch, unmeasured + batches))):
        if taken + 1 == unmeasured:
            begin = time.perf_counter()
        assert found.shape[0] == batch
    return {"seconds": time.perf_counter() - begin}


def compare(images, file, count):
    theirs = numpy.fromfile(file, numpy.float32)
    mine = numpy.stack([images.drawn_as_taxon(index) for index in range(count)])
    if theirs.size != mine.size:
        return {"grey_levels": None}
    return {"grey_levels": float((numpy.abs(theirs.reshape(mine.shape) - mine) * images.deviation).max())}


REQUESTS = {"load": load, "compare": compare}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy("file_system")
    loaded = Images(Options(**json.loads(sys.argv[1])))
    for line in sys.stdin:
        name, _, options = line.strip().partition(" ")
        if name not in REQUESTS:
            break
        print(json.dumps(REQUESTS[name](loaded, **json.loads(options))), flush=True)
