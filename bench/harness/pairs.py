"""Statistics of sides that take turns."""
import statistics


def relative_spread(values):
    """Distance between the quartiles over the median."""
    if len(values) < 2:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / statistics.median(values)


def take_turns(turns, rounds):
    """Calls each of `turns` (name -> function that returns a figure) once a round, in an order that rotates.

    Returns name -> figures, in which index i of all names lies close together in time.
    """
    figures = {name: [] for name in turns}
    names = list(turns)
    for i in range(rounds):
        shift = i % len(names)
        for name in names[shift:] + names[:shift]:
            figures[name].append(turns[name]())
    return figures


def ratio(better_when_large, ours, theirs):
    """(median, spread) of the pairwise ratios; above 1 means that ours is better."""
    ratios = [(a / b if better_when_large else b / a) for a, b in zip(ours, theirs)]
    return statistics.median(ratios), relative_spread(ratios)
