"""Equal work: both sides begin with the same weights and take the same batches, so that every step's loss is the same but for rounding, and a
side that leaves something out is found."""
import os
import statistics

TOLERANCE = 1e-3  # of a step's loss, the mean over the global batch


def worst_difference(ours, theirs):
    """Of two sides' losses, step by step."""
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"losses of {len(ours)} and {len(theirs)} steps are no equal work")
    return max(abs(a - b) for a, b in zip(ours, theirs))


def same(ours, theirs):
    """False for anything that is not a number, too."""
    return len(ours) == len(theirs) and bool(ours) and all(abs(a - b) <= TOLERANCE for a, b in zip(ours, theirs))


def share_of_cores(cores, workers, rank):
    """The cores of a worker of this host: both sides are bound by the same list."""
    if len(cores) < workers:
        return list(cores)
    begin, end = (at * len(cores) // workers for at in (rank, rank + 1))
    return list(cores)[begin:end]


def bound_to(cores, command):
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *command]


# Of whoever computes beside Taxon, which keeps memory that was freed for the next step, in huge pages, in the same way (docs/models.md): glibc's own have each
# step's pages mapped and zeroed again.
HEAP = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4294967296", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def bound_workers(workers, command):
    """The command of each of so many workers of this host, on its own cores."""
    cores = sorted(os.sched_getaffinity(0))
    return [bound_to(share_of_cores(cores, workers, rank), command) for rank in range(workers)]


def better(runs, figure):
    """Name of the variant with the higher median figure: name -> runs."""
    return max(runs, key=lambda name: statistics.median(map(figure, runs[name])))
