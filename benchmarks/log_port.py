"""The log of queued edges on a disk through the port for files, against the one of before files were a port.

The code of before is taken from the history of this repository. Each side is a process of its own that stays, and
passes batches through a new log each turn: written, read at the other end, and given up. Throughput is that of large
batches, latency the median over small ones.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from _harness import OF_TURNS, Measured, Ratio, alternate, between, parse_options, progress, report

#: The last commit whose log reads and writes files by itself.
BEFORE = "6b10ebc27d492f24d31d8a45c7108cc78c615c9a"
PORT, ITSELF = "through the port", "before files were a port"
ROOT = Path(__file__).resolve().parents[1]
SIDE = ROOT / "benchmarks" / "_log_side.py"
SMALL = 200


class Side:
    """A process that measures the log of one package.

    Parameters
    ----------
    package : Path
        The folder that the package is in.
    """

    def __init__(self, package: Path) -> None:
        self._package = package
        self._process = subprocess.Popen(
            [sys.executable, str(SIDE)],
            env={**os.environ, "PYTHONPATH": str(package)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, rows: int, batches: int) -> Mapping[str, float]:
        """Pass batches through a log, and return the seconds of all, and the median of one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"rows": rows, "batches": batches}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"expected an answer of the log's process, got its end with {self._process.wait()}")
        found = json.loads(line)
        if not Path(found["package"]).is_relative_to(self._package):
            raise RuntimeError(f"expected the package in {self._package}, got {found['package']}")
        return {name: found[name] for name in ("sum_s", "median_s")}

    def close(self) -> None:
        """End it."""
        with self._process:
            pass


@contextmanager
def package_of(commit: str) -> Iterator[Path | None]:
    """Lend a folder with the package as it was at a commit; None where the history does not go back to it."""
    archive = subprocess.run(["git", "archive", commit, "src/foretide"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        progress(f"no commit {commit[:7]} in the history; a whole clone has it: git fetch --unshallow")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="foretide-before-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as content:
            content.extractall(folder, filter="data")
        yield Path(folder) / "src"


def main() -> None:
    options = parse_options(__doc__, repeats=15)
    rows, batches, small = options.size((100_000, 40, 600), quick=(50_000, 10, 150), smoke=(1_000, 2, 3))
    progress(f"log: {batches} batches of {rows:,} rows, then {small} of {SMALL}")
    with ExitStack() as stack:
        before = stack.enter_context(package_of(BEFORE))
        packages = {PORT: ROOT / "src", **({} if before is None else {ITSELF: before})}
        sides = {name: Side(package) for name, package in packages.items()}
        for side in sides.values():
            stack.callback(side.close)

        def rate(side: Side) -> float:
            return rows * batches / side.ask(rows, batches)["sum_s"]

        def wait_s(side: Side) -> float:
            return side.ask(SMALL, small)["median_s"]

        def each(measure: Callable[[Side], float]) -> dict[str, Callable[[], float]]:
            return {name: lambda side=side: measure(side) for name, side in sides.items()}

        rates = alternate(
            each(rate), options.repeats, warm_up=options.warm_up, show=lambda value: f"{value:,.0f} rows/s"
        )
        waits = alternate(
            each(wait_s), options.repeats, warm_up=options.warm_up, show=lambda value: f"p50 {1e3 * value:.2f} ms"
        )

    def ratio(values: Mapping[str, Sequence[float]]) -> Ratio | None:
        return between(values[PORT], values[ITSELF]) if ITSELF in values else None

    lines = [
        Measured("throughput of the log on a disk", ITSELF, "at least", 0.95, ratio(rates)),
        Measured("latency of the log on a disk, p50", ITSELF, "at most", 1.05, ratio(waits)),
    ]
    intro = (
        f"Batches of {rows:,} rows, and of {SMALL} for latency, are written to the log of a queued edge on a disk, "
        f"read at its other end and given up; against commit {BEFORE[:7]}, the last one whose log reads and writes "
        f"files by itself. {OF_TURNS}"
    )
    details = {"rows": rows, "batches": batches, "small": small, "before": BEFORE, "rows_per_s": rates, "p50_s": waits}
    report("log_port", "The log through the port", lines, details, options, intro=intro, packages=("pyarrow",))


if __name__ == "__main__":
    main()
