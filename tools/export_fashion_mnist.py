#!/usr/bin/env python3
"""Writes Fashion-MNIST, or another data set of four IDX files, in another layout that Taxon reads: the example
of docs/data.md for data of one's own. JPEG needs Debian's python3-pil."""

import argparse
import gzip
import io
import struct
import sys
import tarfile
from pathlib import Path

SETS = {"train": "train", "test": "t10k"}


def read_idx(folder, name):
    """Extents and elements of an IDX file of bytes, gzipped or not."""
    path = folder / name
    if path.exists():
        content = path.read_bytes()
    else:
        content = gzip.decompress(path.with_name(name + ".gz").read_bytes())
    dimensions = content[3]
    extents = struct.unpack(f">{dimensions}I", content[4:4 + 4 * dimensions])
    return extents, content[4 + 4 * dimensions:]


def read_set(folder, prefix, limit):
    """Height, width, images as bytes, and labels."""
    (count, height, width), pixels = read_idx(folder, f"{prefix}-images-idx3-ubyte")
    labels = read_idx(folder, f"{prefix}-labels-idx1-ubyte")[1]
    count = min(count, limit or count)
    size = height * width
    return height, width, [pixels[i * size:(i + 1) * size] for i in range(count)], list(labels[:count])


def jpeg(pixels, height, width, quality):
    try:
        from PIL import Image
    except ImportError:
        sys.exit("export_fashion_mnist: JPEG needs Pillow: apt-get install python3-pil")
    out = io.BytesIO()
    Image.frombytes("L", (width, height), pixels).save(out, "JPEG", quality=quality)
    return out.getvalue()


def write_images(out, name, height, width, images, labels, arguments):
    for label in sorted(set(labels)):
        (out / name / str(label)).mkdir(parents=True, exist_ok=True)
    for i, (pixels, label) in enumerate(zip(images, labels)):
        (out / name / str(label) / f"{i:05}.jpg").write_bytes(jpeg(pixels, height, width, arguments.quality))


def write_webdataset(out, name, height, width, images, labels, arguments):
    (out / name).mkdir(parents=True, exist_ok=True)
    for first in range(0, len(images), arguments.shard):
        with tarfile.open(out / name / f"{first // arguments.shard:05}.tar", "w") as shard:
            for i in range(first, min(first + arguments.shard, len(images))):
                parts = {"jpg": jpeg(images[i], height, width, arguments.quality), "cls": str(labels[i]).encode()}
                for ending, content in parts.items():
                    entry = tarfile.TarInfo(f"{i:05}.{ending}")
                    entry.size = len(content)
                    shard.addfile(entry, io.BytesIO(content))


def npy(kind, shape, content):
    """As numpy.save() writes it."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(11 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


def write_npy(out, name, height, width, images, labels, _):
    (out / name).mkdir(parents=True, exist_ok=True)
    (out / name / "samples.npy").write_bytes(npy("|u1", (len(images), height, width), b"".join(images)))
    (out / name / "labels.npy").write_bytes(npy("|u1", (len(labels),), bytes(labels)))


def write_csv(out, name, height, width, images, labels, _):
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"{name}.csv", "w") as table:
        print(*(f"pixel{k}" for k in range(height * width)), "label", sep=",", file=table)
        for pixels, label in zip(images, labels):
            print(*pixels, label, sep=",", file=table)


def write_cifar(out, name, height, width, images, labels, _):
    """Images stand in the middle of 32 x 32 pixels, grey in three channels."""
    out.mkdir(parents=True, exist_ok=True)
    top, left = (32 - height) // 2, (32 - width) // 2
    records = []
    for pixels, label in zip(images, labels):
        plane = bytearray(32 * 32)
        for y in range(height):
            begin = (top + y) * 32 + left
            plane[begin:begin + width] = pixels[y * width:(y + 1) * width]
        records.append(bytes([label]) + bytes(plane) * 3)
    if name == "test":
        (out / "test_batch.bin").write_bytes(b"".join(records))
        return
    for batch in range(5):
        (out / f"data_batch_{batch + 1}.bin").write_bytes(b"".join(records[batch::5]))


LAYOUTS = {"images": write_images, "webdataset": write_webdataset, "npy": write_npy, "csv": write_csv, "cifar": write_cifar}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layout", choices=LAYOUTS)
    parser.add_argument("out", type=Path, help="a folder")
    parser.add_argument("--idx", type=Path, default=Path("/usr/share/datasets/fashion-mnist"), help="folder of the IDX files")
    parser.add_argument("--limit", type=int, default=0, help="only the first so many of each set")
    parser.add_argument("--quality", type=int, default=95, help="of JPEG files")
    parser.add_argument("--shard", type=int, default=10000, help="samples of a tar archive")
    arguments = parser.parse_args()
    for name, prefix in SETS.items():
        try:
            contents = read_set(arguments.idx, prefix, arguments.limit)
        except FileNotFoundError as missing:
            sys.exit(f"{missing.filename}: there is no such file; Fashion-MNIST is Debian's package dataset-fashion-mnist")
        try:
            LAYOUTS[arguments.layout](arguments.out, name, *contents, arguments)
        except ModuleNotFoundError:
            sys.exit(f"layout {arguments.layout} needs Pillow: apt-get install python3-pil")


if __name__ == "__main__":
    main()
