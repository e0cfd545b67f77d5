"""Making the runs of experiments: each run once, side by side in separate processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any

from foretide.errors import ConfigError, ForetideError
from foretide.experiments.reproduce.contract import Job
from foretide.sim.processes import call_each

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
    try:
        with closing(call_each(_run, once, processes)) as done:
            for number, outcome in done:
                outcomes[once[number]] = outcome
                if watch is not None:
                    watch(once[number], len(outcomes), len(once))
    except BrokenProcessPool as error:
        raise RunError(f"runs in {processes} processes: {error}; nothing was written for them") from error
    return outcomes


def _run(job: Job) -> Any:
    """Make a run; what it raises becomes an error that any process can pass on."""
    try:
        return job.run()
    except Exception as error:
        raise RunError(f"run {job.label!r}: {type(error).__name__}: {error}; nothing was written for it") from error
