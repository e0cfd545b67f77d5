"""Making the runs of experiments: each run once, side by side in separate processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from foretide.errors import ConfigError, ForetideError
from foretide.experiments.reproduce.contract import Job
from foretide.sim.compare import single_threads

__all__ = ["RunError", "run_jobs", "unique_jobs"]


#: Called with a finished run, how many are finished, and how many there are.
Watch = Callable[[Job, int, int], None]


class RunError(ForetideError, RuntimeError):
    """A run of an experiment failed, so there is nothing to conclude."""


def unique_jobs(jobs: Iterable[Job]) -> list[Job]:
    """Return every run once, the long ones first, so that none is left running alone at the end."""
    return sorted(dict.fromkeys(jobs), key=lambda job: -job.cost)


def run_jobs(jobs: Iterable[Job], processes: int = 2, watch: Watch | None = None) -> dict[Job, Any]:
    """Make every run once and return the outcomes.

    Interrupting it (Ctrl-C) ends the processes and raises `KeyboardInterrupt`.

    Parameters
    ----------
    jobs : iterable of Job
        The runs.
    processes : int
        How many at once; with 1, all in this process.
    watch : callable, optional
        Called with the progress.

    Raises
    ------
    RunError
        When a run fails; the others are abandoned.
    """
    if processes < 1:
        raise ConfigError("--processes", expected="at least 1", got=processes)
    once = unique_jobs(jobs)
    outcomes: dict[Job, Any] = {}
    for job, outcome in _in_processes(once, processes) if processes > 1 and len(once) > 1 else _in_line(once):
        outcomes[job] = outcome
        if watch is not None:
            watch(job, len(outcomes), len(once))
    return outcomes


def _in_line(jobs: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
    for job in jobs:
        yield job, _run(job)


def _in_processes(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Any]]:
    # Fresh processes: forking one in which numba or BLAS threads run can hang.
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    with single_threads(), ProcessPoolExecutor(min(processes, len(jobs)), context, _begin) as pool:
        running: dict[Future[Any], Job] = {pool.submit(_run, job): job for job in jobs}
        try:
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    job = running.pop(future)
                    yield job, _result(job, future)
        except BaseException:
            # Whatever ended it, a run in progress is not worth waiting for.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise


def _run(job: Job) -> Any:
    """Make a run; what it raises becomes an error that any process can pass on."""
    try:
        return job.run()
    except Exception as error:
        raise _failed(job, error) from error


def _result(job: Job, future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise _failed(job, error) from error


def _begin() -> None:
    """Set up a worker process: Ctrl-C is handled by the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _failed(job: Job, error: Exception) -> RunError:
    return RunError(f"run {job.label!r}: {type(error).__name__}: {error}; nothing was written for it")
