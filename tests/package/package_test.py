#!/usr/bin/env python3
"""package_test.py BUILD SOURCE: installs the build into an empty prefix, builds the examples against what is there,
and runs them."""

import os
import pathlib
import re
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


def start_processes(count, *command):
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
    return [rank.returncode for rank in ranks], outputs


def run_processes(count, *command):
    codes, outputs = start_processes(count, *command)
    if any(codes):
        sys.exit(f"exit codes {codes}:\n" + "\n".join(outputs))
    return outputs


def refused_ranks(count, *command):
    """What a rank says that refuses; the others may hear of it (exit code 75) before they see it themselves."""
    codes, outputs = start_processes(count, *command)
    if 2 not in codes or set(codes) - {2, 75}:
        sys.exit(f"exit codes {codes} instead of a refusal:\n" + "\n".join(outputs))
    return outputs[codes.index(2)]


def refused(*command):
    result = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=600)
    if result.returncode != 2:
        sys.exit(f"exit code {result.returncode} instead of a refusal:\n{result.stdout}{result.stderr}")
    return result.stderr


# Of each recipe of 08_your_own_rules: its place on the axes, whether its ranks keep step, and what is wrong with it.
OWN_ROWS = {
    "lars_over_a_star": ("data; replicated; synchronous; all-reduce (star); dense", True, (
        ("optimiser.trust=0", "optimiser.trust must be a number, above 0"),
        ("optimiser.trusts=1", "optimiser.trusts is no key; did you mean optimiser.trust?"),
        ("exchange.levels.0.collective=sta", "did you mean star?"),
        ("exchange.levels=[{topology: sharded}]", "that needs norms of whole tensors"))),
    "median_of_gradients": ("data; replicated; synchronous; median; dense", True, (
        ("exchange.levels.0.topology=medium", "did you mean median?"),
        ("exchange.levels.0.collective=ring", "no collective serves median"))),
    "dynamic_ssp": ("data; servers; staleness 1 to 3; servers; stochastic_top_k", False, (
        ("exchange.levels.0.lower=-1", "exchange.levels[0].lower must be a whole number, at least 0"),
        ("exchange.levels.0.lower=5", "upper must not be below lower: lower is 5, upper is 3"),
        ("exchange.levels.0.staleness=2", "staleness is a key of clocks, sampled"),
        ("exchange.levels.0.codec.explore=2", "exchange.levels[0].codec.explore must be a number, at least 0 and at most 1"))),
    "looped_bfs": ("data, pipeline (looped-bfs); replicated; synchronous; all-reduce (ring); dense", True, (
        ("pipeline.chunks=0", "pipeline.chunks must be a whole number, at least 1 and at most 64"),
        ("pipeline.schedule=looped_dfs", "did you mean looped_bfs?"),
        ("batch.micro_batches=1", "schedule looped_bfs needs at least as many micro-batches as ranks"),
        ("pipeline={schedule: crossed}", "rank 0 waits in receipt of gradients of micro-batch 0 at stage 0"))),
}


def try_own_rows(program, folder):
    """Rows that no line of Taxon knows: read, refused, placed, forecast, trained by processes, and simulated."""
    for recipe, (axes, keeps_step, mistakes) in OWN_ROWS.items():
        file = folder / f"{recipe}.yaml"
        for mistake, sentence in mistakes:
            expect(sentence, refused(program, file, mistake))
        output = run_processes(4, program, file)[0]
        expect(f"# on the axes: {axes}\n", output)
        if not re.search(r"^# .*sent per step( and worker:)? [1-9]", output, re.MULTILINE):
            sys.exit(f"no forecast in:\n{output}")
        found = re.search(r"trained: accuracy (\S+); simulated: accuracy (\S+), (\S+) s a step, (.*)", output)
        if not found or float(found[1]) < 0.8 or float(found[2]) < 0.8 or not float(found[3]) > 0:
            sys.exit(f"{recipe} did not train:\n{output}")
        if keeps_step and found[4] != "the same bits":
            sys.exit(f"{recipe} comes to other bits in the virtual world:\n{output}")


def try_own_split(program, recipe):
    """A layer and a split that no line of Taxon knows: refused where they do not fit, trained to one process's loss."""
    split = "mesh.tensor=2"
    for mistake, sentence in (("mesh.splits=[3=chanels]", "did you mean channels?"),
                              ("mesh.splits=[3=outputs]", "3 can't be split by outputs: it is a depthwise convolution, of which "
                                                          "members have parts by channels"),
                              ("mesh.splits=[5=channels]", "5 can't be split by channels: it is a convolution without groups")):
        expect(sentence, refused_ranks(2, program, recipe, split, mistake))
    alone = float(run_processes(1, program, recipe)[0].split()[-1])
    for splits in ("[]", "[0=outputs, 3=channels, 5=inputs]", "[auto]"):
        for output in run_processes(2, program, recipe, split, f"mesh.splits={splits}"):
            if not abs(float(output.split()[-1]) - alone) < 1e-10 * alone:
                sys.exit(f"members who share channels come to another loss than {alone}: {output}")


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
        drawn = run(examples / "10_your_own_schedule")
        expect("both have the bubble that their papers say", drawn)
        expect("looped_bfs\nrank 0  F0  F1  F2", drawn)
        expect("crossed: rank 0 waits in ", drawn)
        tensors = run(examples / "04_tensor_channel")
        expect("step 3: the largest is 3", tensors)
        expect("float32[3, 100]: the largest is 30", tensors)
        expect("trained as they should", run(examples / "06_your_own_discipline"))
        try_own_rows(examples / "08_your_own_rules", source / "examples")
        if (examples / "09_your_own_loop").exists():
            # Of a target with a variance of 16.
            for output in run_processes(2, examples / "09_your_own_loop", source / "recipes/blobs-perceptron.yaml",
                                        "length.steps=200", "learning_rate.base=0.01"):
                if not float(output.split()[1]) < 8:
                    sys.exit(f"an own loop did not learn: {output}")
            # Two replicas, and two members, each of which has a part of the layers.
            ends = [run_processes(2, examples / "11_your_own_network", source / "recipes/fashion-mnist-cnn.yaml",
                                  "data.train_limit=6000", "data.test_limit=1000", "length.epochs=1",
                                  "learning_rate.warmup_samples=1000", mesh)
                    for mesh in ("mesh.tensor=1", "mesh.tensor=2")]
            for output in sum(ends, []):
                if not float(output.split()[-1]) > 0.6:
                    sys.exit(f"a network of one's own did not learn: {output}")
            try_own_split(examples / "12_your_own_split", source / "examples/channels.yaml")
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
