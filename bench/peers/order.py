#!/usr/bin/python3
"""The order in which Taxon takes samples (src/data/sampler.h), so that a peer can train on the same batches.

order.py SEED EPOCHS SIZE FILE writes the indices of so many epochs, 8 bytes each."""
import sys

import numpy

WORD, HALF = 2**64 - 1, numpy.uint64(0xFFFFFFFF)
SHIFT = numpy.uint64(32)
STREAM = 0x4839C96B6CC2898E  # the first draw of Rng(1, "epoch order", 0)


def philox(counter, key):
    """Philox4x32-10 of four arrays of words (Salmon et al., SC'11)."""
    counter = [numpy.asarray(word, numpy.uint64) & HALF for word in counter]
    for _ in range(10):
        even, odd = numpy.uint64(0xD2511F53) * counter[0], numpy.uint64(0xCD9E8D57) * counter[2]
        counter = [(odd >> SHIFT) ^ counter[1] ^ numpy.uint64(key[0]), odd & HALF, (even >> SHIFT) ^ counter[3] ^ numpy.uint64(key[1]), even & HALF]
        key = ((key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF)
    return counter


def stream(seed, words, index, count):
    """The first numbers of Rng(seed, words, index)."""
    purpose = 0xCBF29CE484222325
    for letter in words.encode():
        purpose = (purpose ^ letter) * 0x100000001B3 & WORD
    key = philox([seed & 0xFFFFFFFF, seed >> 32, purpose & 0xFFFFFFFF, purpose >> 32], (0x7461786F, 0x6E000000))
    positions = numpy.arange(count, dtype=numpy.uint64)
    low, high, *_ = philox([positions, 0, index & 0xFFFFFFFF, index >> 32], (int(key[0]), int(key[1])))
    return high << SHIFT | low


def draws(seed, epoch, count):
    return stream(seed, "epoch order", epoch, count)


def epoch_order(seed, epoch, size):
    """A permutation of range(size)."""
    if int(draws(1, 0, 1)[0]) != STREAM:
        raise ValueError("this is no longer the stream of Taxon's Rng")
    bounds = numpy.arange(size, 1, -1, dtype=numpy.uint64)
    numbers = draws(seed, epoch, size - 1)
    places = ((numbers >> SHIFT) * bounds + ((numbers & HALF) * bounds >> SHIFT)) >> SHIFT  # the upper word of the product
    order = list(range(size))
    for last, place in zip(range(size - 1, 0, -1), places.tolist()):
        order[last], order[place] = order[place], order[last]
    return order


def part(size, parts, index):
    """Where a rank's share of a global batch begins and ends, as taxon::part()."""
    each, more = divmod(size, parts)
    begin = index * each + min(index, more)
    return begin, begin + each + (index < more)


if __name__ == "__main__":
    seed, epochs, size = map(int, sys.argv[1:4])
    with open(sys.argv[4], "wb") as file:
        for number in range(epochs):
            numpy.array(epoch_order(seed, number, size), numpy.int64).tofile(file)
