"""How many tuples per second each grouping routes on one core.

Each figure is the median of several repeats over one array of tuples, after compilation. The array is larger than
common caches, and every result is read once within the time taken. The figure of `global` is still that of an
allocation: it has nothing to compute. Keys are drawn from a Zipf distribution (skew 1.5) with a fixed seed, and
uniformly too for OSG, whose cost depends on them. OSG is in its RUN state, with sketches of times that depend on the
key from every task; load-aware stays short of full utilisation, so that all of it is Algorithm 1's search and none is
round robin.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from _harness import Measured, Ratio, Table, parse_options, report
from foretide.grouping import GROUPINGS, Grouping, LoadAware, Osg, OsgTask, SchedulerPhase, hash_columns, make_grouping

TARGETS = {"dynamic": 50e6, "osg": 5e6, "osg, uniform keys": 5e6}


@dataclass(frozen=True)
class Setup:
    """What is measured."""

    replicas: int = 16
    tuples: int = 4_000_000
    repeats: int = 7
    seed: int = 20_240_501


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    tuples_per_s: tuple[float, ...]


def rates(work: Callable[[], NDArray[np.generic]], setup: Setup) -> tuple[float, ...]:
    work()  # compiles, or loads what was compiled before
    found = []
    for _ in range(setup.repeats):
        start = time.perf_counter()
        work().max()
        found.append(setup.tuples / (time.perf_counter() - start))
    return tuple(found)


def trained_osg(keys: NDArray[np.int64], replicas: int) -> Osg:
    osg = Osg(replicas)
    for number in range(replicas):
        task = OsgTask(number, osg.family, window=1024, tolerance=0.5)
        sketches = task.executed_many(keys[:8192], (1.0 + keys[:8192] % 64) * 1e-6)
        assert sketches is not None, "8192 tuples of unchanging times are stable"
        osg.learn(number, sketches)
    osg.assign(keys[:replicas])
    for request in osg.take_requests():
        osg.synchronise(OsgTask(request.task, osg.family).reply(request))
    assert osg.phase is SchedulerPhase.RUN, "every task has replied"
    return osg


def grouping_for(name: str, keys: NDArray[np.int64], setup: Setup) -> Grouping:
    if name == "osg":
        return trained_osg(keys, setup.replicas)
    if name == "load-aware":
        all_tuples = setup.tuples * (setup.repeats + 1)
        return LoadAware(setup.replicas, execution_s=0.9 * setup.replicas / all_tuples, td_s=1.0)
    return make_grouping(name, setup.replicas)


def rates_of(name: str, keys: NDArray[np.int64], setup: Setup) -> tuple[float, ...]:
    grouping = grouping_for(name, keys, setup)
    return rates(lambda: grouping.assign(keys).replicas, setup)


def figures(setup: Setup) -> Iterator[Figure]:
    rng = np.random.default_rng(setup.seed)
    values = rng.zipf(1.5, setup.tuples).astype(np.int64)
    keys, ids = hash_columns([values]), np.arange(setup.tuples, dtype=np.int64)
    for name, kind in GROUPINGS.items():
        data = ids % setup.replicas if name == "direct" else keys if kind.value_aware else ids
        yield Figure(name, rates_of(name, data, setup))
    uniform = "osg, uniform keys"
    yield Figure(uniform, rates_of("osg", hash_columns([ids]), setup))
    texts = pa.array(values % 10_000).cast(pa.string())
    yield Figure("hash_columns, int64", rates(lambda: hash_columns([values]), setup))
    yield Figure("hash_columns, string", rates(lambda: hash_columns([texts]), setup))


def main() -> None:
    options = parse_options(__doc__)
    setup = options.size(Setup(), quick=Setup(tuples=400_000), smoke=Setup(tuples=20_000, repeats=1))
    lines = list(figures(setup))
    targets = [
        Measured(
            f"{line.name}, million tuples a second",
            "",
            "at least",
            TARGETS[line.name] / 1e6,
            Ratio(tuple(rate / 1e6 for rate in line.tuples_per_s)),
        )
        for line in lines
        if line.name in TARGETS
    ]
    rows = [[line.name, f"{median(line.tuples_per_s) / 1e6:.1f}"] for line in lines]
    intro = f"{setup.replicas} replicas, {setup.tuples:,} tuples, median of {setup.repeats}, one core."
    details = {"setup": asdict(setup), "results": [asdict(line) for line in lines]}
    tables = [Table("All groupings:", ["grouping", "M tuples/s"], rows)]
    report("grouping", "Groupings", targets, details, options, intro=intro, tables=tables, packages=["numba"])


if __name__ == "__main__":
    main()
