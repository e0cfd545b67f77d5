"""Reproductions for a terminal: the progress of the runs, and what there is to reproduce."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console, RenderableType

from foretide.commands.terminal import ProgressView, plain_table
from foretide.experiments.reproduce import Experiment
from foretide.experiments.reproduce.contract import Job

__all__ = ["JobsView", "experiments_table"]

# If the output is not a terminal, lines are printed for this many parts of the runs.
_PARTS = 10


class JobsView(ProgressView):
    """Shows how many runs have finished; if the output is not a terminal, a line now and then.

    Parameters
    ----------
    console : Console
        The console.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._task = self._bar.add_task("runs", total=None)

    def show(self, job: Job, done: int, total: int) -> None:
        """Show that `job` has finished, as one of `done` of `total`."""
        if self._live:
            self._bar.update(self._task, completed=done, total=total, description=job.label)
        elif done == total or done * _PARTS // total != (done - 1) * _PARTS // total:
            self._line(f"{done} of {total} runs done")


def experiments_table(experiments: Mapping[str, Experiment]) -> RenderableType:
    """Return the experiments as a table: name, what it reproduces, and how long it takes."""
    table = plain_table("name")
    table.add_column("reproduces")
    table.add_column("about", justify="right", no_wrap=True)
    for experiment in experiments.values():
        table.add_row(experiment.name, experiment.title, f"{experiment.seconds:.0f} s")
    return table
