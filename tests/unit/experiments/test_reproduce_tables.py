"""Every number that a table or a text prints is compared, with the runs of its row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from foretide.experiments.reproduce import presps_tables
from foretide.experiments.reproduce.contract import Experiment, Scope
from foretide.experiments.reproduce.dabs import figures as dabs
from foretide.experiments.reproduce.pasps import tables as pasps
from foretide.experiments.reproduce.published import PASPS, PSPS_BY_TD
from foretide.experiments.reproduce.trials import DEFINITIONS

METRICS = (
    *("saved", "degradation", "processed", "latency_mean_ms", "error_input", "error_replica"),
    *(key for others in DEFINITIONS.values() for key in others),
)


def outcomes(experiment: Experiment, scope: Scope) -> dict[Any, Any]:
    """Return a made-up outcome for each run: its seed, whatever is measured."""
    return {job: SimpleNamespace(metrics=dict.fromkeys(METRICS, float(job.seed))) for job in experiment.jobs(scope)}


@pytest.mark.parametrize("number", sorted(PASPS))
def test_p10_every_printed_number_is_compared_with_the_runs_of_its_row(number: int) -> None:
    scope = Scope(2)
    [experiment] = [one for one in pasps.EXPERIMENTS if one.name == f"pasps-table{number}"]
    rows = pasps._rows(number, scope)
    found = pasps.compared(rows, PASPS[number], outcomes(experiment, scope))
    assert {(one.subject, one.metric): one.printed for one in found} == {
        (row, metric): cell for row, cells in PASPS[number].items() for metric, cell in cells.items()
    }
    assert {one.values for one in found} == {(1.0, 2.0)}
    assert {job.seed for jobs in rows.values() for job in jobs} == {1, 2}


def test_p10_the_study_of_td_has_a_run_for_every_interval_that_is_printed() -> None:
    experiments = {one.name: one for one in presps_tables.EXPERIMENTS}
    jobs = experiments["presps-td"].jobs(Scope(1))
    assert {job.td_s for job in jobs} == set(PSPS_BY_TD)  # type: ignore[attr-defined]


def test_d7_what_is_printed_of_resources_is_compared_with_the_replicas_of_two_strategies() -> None:
    [figure] = [one for one in dabs.FIGURES if one.times]
    replicas = {"incremental": (6.0, 9.0), "Rlearning": (4.0, 3.0), "AUTOSCALE+": (6.0, 6.0)}
    paused = {"incremental, with pause": (5.0, 5.0), "Rlearning, with pause": (10.0, 5.0)}
    found = [dabs._times(pair, printed, replicas | paused) for pair, printed in figure.times.items()]
    assert [(one.subject, one.values, one.paper) for one in found] == [
        ("incremental ÷ Rlearning", (1.5, 3.0), 1.64),
        ("incremental ÷ AUTOSCALE+", (1.0, 1.5), 1.18),
    ]
    assert [trial.value for one in found for trial in one.trials] == [0.75, pytest.approx(5 / 6)]
