"""How many tuples per second each grouping routes on one core.

Run ``python benchmarks/grouping.py [--json OUT] [--markdown OUT]``. Each figure is the median of several repeats
over one array of tuples, after compilation. The array is larger than common caches, and every result is read once
within the time taken. The figure of `global` is still that of an allocation: it has nothing to compute. Keys are
drawn from a Zipf distribution (skew 1.5) with a fixed seed, and uniformly too for OSG, whose cost depends on them.
OSG is in its RUN state, with sketches of times that depend on the key from every task; load-aware stays short of
full utilisation, so that all of it is Algorithm 1's search and none is round robin.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numba
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
    tuples_per_s: float
    target_per_s: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the target was reached."""
        return self.tuples_per_s / self.target_per_s if self.target_per_s else None


def median_rate(work: Callable[[], NDArray[np.generic]], setup: Setup) -> float:
    work()  # compiles, or loads what was compiled before
    times = []
    for _ in range(setup.repeats):
        start = time.perf_counter()
        work().max()
        times.append(time.perf_counter() - start)
    return setup.tuples / median(times)


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


def rate_of(name: str, keys: NDArray[np.int64], setup: Setup) -> float:
    grouping = grouping_for(name, keys, setup)
    return median_rate(lambda: grouping.assign(keys).replicas, setup)


def figures(setup: Setup) -> Iterator[Figure]:
    rng = np.random.default_rng(setup.seed)
    values = rng.zipf(1.5, setup.tuples).astype(np.int64)
    keys, ids = hash_columns([values]), np.arange(setup.tuples, dtype=np.int64)
    for name, kind in GROUPINGS.items():
        data = ids % setup.replicas if name == "direct" else keys if kind.value_aware else ids
        yield Figure(name, rate_of(name, data, setup), TARGETS.get(name))
    uniform = "osg, uniform keys"
    yield Figure(uniform, rate_of("osg", hash_columns([ids]), setup), TARGETS[uniform])
    texts = pa.array(values % 10_000).cast(pa.string())
    yield Figure("hash_columns, int64", median_rate(lambda: hash_columns([values]), setup))
    yield Figure("hash_columns, string", median_rate(lambda: hash_columns([texts]), setup))


def as_markdown(lines: list[Figure], setup: Setup) -> str:
    head = f"{setup.replicas} replicas, {setup.tuples:,} tuples, median of {setup.repeats}, one core\n\n"
    rows = ["| grouping | M tuples/s | target | ratio |", "|---|---:|---:|---:|"]
    for line in lines:
        target = f"{line.target_per_s / 1e6:.0f}" if line.target_per_s else ""
        ratio = f"{line.ratio:.1f}" if line.ratio else ""
        rows.append(f"| {line.name} | {line.tuples_per_s / 1e6:.1f} | {target} | {ratio} |")
    return head + "\n".join(rows) + "\n"


def as_json(lines: list[Figure], setup: Setup) -> str:
    versions = {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
    results = [{**asdict(line), "ratio": line.ratio} for line in lines]
    return json.dumps({"setup": asdict(setup), "versions": versions, "results": results}, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures and their setup to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--smoke", action="store_true", help="the shortest run there is, as in the tests")
    options = parser.parse_args()
    setup = Setup(tuples=20_000, repeats=1) if options.smoke else Setup()
    lines = list(figures(setup))
    print(as_markdown(lines, setup), end="")
    if options.json:
        options.json.write_text(as_json(lines, setup), encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(as_markdown(lines, setup), encoding="utf-8")


if __name__ == "__main__":
    main()
