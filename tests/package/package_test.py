#!/usr/bin/env python3
"""package_test.py BUILD SOURCE: installs the build into an empty prefix, builds the examples against what is there,
and runs them."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile


def run(*command, **options):
    print("+", *command, flush=True)
    result = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            timeout=1200, **options)
    if result.returncode != 0:
        sys.exit(f"{result.stdout}\nexit code {result.returncode}")
    return result.stdout


def expect(text, output):
    if text not in output:
        sys.exit(f"expected {text!r} in:\n{output}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_processes(count, *command):
    """One process per rank, found through the environment; none is left behind."""
    port = str(free_port())
    ranks = [
        subprocess.Popen([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
                              "MASTER_PORT": port})
        for rank in range(count)
    ]
    try:
        outputs = [rank.communicate(timeout=600)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for rank, output in zip(ranks, outputs):
        if rank.returncode != 0:
            sys.exit(f"exit code {rank.returncode}:\n" + "\n".join(outputs))
    return outputs


def main():
    build, source = map(pathlib.Path, sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="taxon-package-") as folder:
        prefix, examples = pathlib.Path(folder, "prefix"), pathlib.Path(folder, "examples")
        run("cmake", "--install", build, "--prefix", prefix)
        for text in ("bash-completion/completions/taxon", "zsh/site-functions/_taxon", "fish/vendor_completions.d/taxon.fish",
                     "man/man1/taxon.1"):
            expect("train", (prefix / "share" / text).read_text())
        expect(f"{prefix}/share/taxon/recipes/systems/horovod.yaml", run(prefix / "bin/taxon", "recipes"))
        expect("horovod", run(prefix / "bin/taxon", "taxonomy", "horovod", cwd=folder))
        expect("name: horovod", run(prefix / "bin/taxon", "train", "horovod", "--dry-run", "--set", "model.name=mlp", "--set", "data.dataset=synthetic",
                                 "--set", "data.train_limit=200", "--set", "data.test_limit=100", cwd=folder))
        run("cmake", "-S", source / "examples", "-B", examples, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
            f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON")
        run("cmake", "--build", examples, "-j", "2")
        expect("rank 3 holds 10 five times", run(examples / "01_hello_ranks"))
        for rank, output in enumerate(run_processes(3, examples / "02_all_reduce_processes")):
            expect(f"rank {rank} of 3", output)
            expect("every value is 6", output)
        expect("star and ring agree", run(examples / "03_your_own_collective"))
        expect("nothing was lost", run(examples / "05_your_own_codec"))
        tensors = run(examples / "04_tensor_channel")
        expect("step 3: the largest is 3", tensors)
        expect("float32[3, 100]: the largest is 30", tensors)
        expect("trained as they should", run(examples / "06_your_own_discipline"))
        expect("trained and simulated as it should", run(examples / "08_your_own_rules"))
        for rank, output in enumerate(run_processes(2, examples / "07_train", source / "recipes/blobs-perceptron.yaml")):
            expect(f"rank {rank}: accuracy ", output)

        expect("taxon\n", run("ls", prefix / "include"))
        flags = run("pkg-config", "--cflags", "--libs", "taxon",
                    env={**os.environ, "PKG_CONFIG_PATH": str(next(prefix.glob("lib*/**/pkgconfig")))}).split()
        built = pathlib.Path(folder, "by_pkg_config")
        run("g++", "-std=c++20", source / "examples/02_all_reduce_processes.cc", "-o", built, *flags)
        for output in run_processes(2, built):
            expect("every value is 3", output)
    print("package: installed, built against and run")


main()
