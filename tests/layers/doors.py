"""The doors: above task, net, control and tensor nobody asks the machine for time, bytes, threads or settings."""

import re

_BELOW = ("src/task/", "src/net/", "src/control/", "src/tensor/")

# (what, how it looks in code, where it is allowed besides the doors themselves, what to use instead)
_DOORS = (
    ("a clock", r"\b(steady_clock|system_clock|high_resolution_clock|clock_gettime|gettimeofday)\b|\btime\s*\(\s*(nullptr|NULL|0)\s*\)",
     (), "Executor::now()"),
    ("a sleep", r"\b(sleep_for|sleep_until|usleep|nanosleep)\b", (), "task::SleepUntil"),
    ("a thread", r"\bstd::(thread|jthread|async)\b|\bpthread_create\b", (), "a lane of tensor::Device"),
    ("the environment", r"\b(secure_)?getenv\b|\benviron\b", (), "the plan, filled in by apps/taxon"),
    ("a socket", r"(?<![\w.>])(::)?(socket|connect|accept4?|listen)\s*\(|<(sys/socket|netinet/\w+|arpa/inet)\.h>",
     (), "net::Transport"),
    ("chance", r"\bstd::(random_device|mt19937(_64)?|default_random_engine)\b|(?<![\w.>:])s?rand\s*\(",
     ("src/base/rng",), "Rng (base/rng.h)"),
    ("a file", r"\bstd::[io]?fstream\b|\bfopen\s*\(|(?<![\w.>])::open\s*\(|<fcntl\.h>",
     ("src/data/", "src/plan/", "src/report/", "src/model/torch/"), "data::Storage"),
)

# Files, that is disks: recipes are read by plan, outputs are written by report (it may not include data), and
# data holds the door itself. libtorch opens its own files.


def check_doors(sources):
    found = []
    for source in sources:
        if source.module is None or source.path.startswith(_BELOW):
            continue
        for what, pattern, allowed, instead in _DOORS:
            if source.path.startswith(allowed):
                continue
            for match in re.finditer(pattern, source.code):
                line = source.line(match.start())
                found.append(f"{source.path}:{line}: {what} ({match.group().strip()}); use {instead}")
    return found
