from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foretide.control.policies import Policy, parse_policies
from foretide.errors import ConfigError, PlanError
from foretide.sim.compare import ROW, Case, Scenario, bare, calibrated, plain, run_cases
from foretide.sim.stress import Stress
from foretide.topology import flow
from foretide.traces import RateTrace


def small(**changes: Any) -> Scenario:
    job = flow("small")
    job.source("in").operator("count", len, execution_s=0.01, replicas=(1, 8))
    trace = RateTrace("steps", 20, np.array([50.0, 250.0, 100.0]))
    return plain(trace, job.build(), 5.0, warm_up_s=10.0, **changes)


def cases(*policies: Policy, seeds: int = 1, **changes: Any) -> list[Case]:
    scenario = small(**changes)
    return [Case(scenario, policy, seed) for policy in policies for seed in range(seeds)]


def test_a_row_holds_exactly_what_is_promised() -> None:
    [row] = run_cases(cases(*parse_policies("pasps:basic")))
    assert tuple(row) == ROW
    assert (row["trace"], row["policy"], row["forecaster"], row["td"], row["seed"], row["stress"]) == (
        "steps",
        "pasps",
        "basic",
        5.0,
        0,
        False,
    )


def test_rows_come_in_the_order_of_the_cases_and_are_told() -> None:
    told: list[int] = []
    rows = run_cases(
        cases(*parse_policies("ds2,static"), seeds=2, stress=Stress()), on_row=lambda number, row: told.append(number)
    )
    assert told == [0, 1, 2, 3]
    assert [(row["policy"], row["seed"]) for row in rows] == [("ds2", 0), ("ds2", 1), ("static", 0), ("static", 1)]
    assert rows[0]["latency_mean_ms"] != rows[1]["latency_mean_ms"]


@pytest.mark.slow
def test_processes_give_the_same_rows_as_one() -> None:
    asked = cases(*parse_policies("ds2,pasps:basic"), seeds=2, stress=Stress())
    assert run_cases(asked, workers=2) == run_cases(asked)


@pytest.mark.slow
def test_an_interruption_ends_the_processes() -> None:
    def interrupt(number: int, row: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cases(cases(*parse_policies("ds2"), seeds=20, stress=Stress()), workers=2, on_row=interrupt)
    assert multiprocessing.active_children() == []


def test_what_cannot_be_set_up_is_said_before_anything_runs() -> None:
    good, bad = Policy("ds2"), Policy("static", planner_settings={"replicas": 0})
    told: list[int] = []
    with pytest.raises(ConfigError, match=r"planner\.static\.replicas"):
        run_cases(cases(good, bad), on_row=lambda number, row: told.append(number))
    with pytest.raises(ConfigError, match="a warm-up and one interval within the 60 s of trace 'steps'"):
        run_cases([replace(case, scenario=replace(case.scenario, warm_up_s=58.0)) for case in cases(good)])
    with pytest.raises(ConfigError, match="at least one run"):
        run_cases([])
    assert told == []


def test_a_run_that_fails_is_named() -> None:
    lost = Policy("static", planner_settings={"by_operator": {"nobody": 2}})
    with pytest.raises(PlanError, match=r"static on steps, seed 0: .*nobody"):
        run_cases(cases(lost))


def test_functions_do_not_travel() -> None:
    topology = small().topology
    assert topology.operators[0].function is None
    assert bare(topology) == topology


def test_the_calibrated_scenario_is_that_of_the_paper() -> None:
    scenario = calibrated(RateTrace("pasps_dns", 5, np.full(20, 100.0)), 5.0, stress=Stress())
    assert (scenario.r_over, scenario.paper_window, scenario.loop.history) == (12, 12, 12)
    assert scenario.stress == Stress()
    options = scenario.options(Policy("pasps", "lr"), 3)
    assert options.forecaster is not None
    assert (options.forecaster.window, options.seed) == (12, 3)


def test_auto_trains_in_line_so_that_runs_repeat() -> None:
    assert small().options(Policy("pasps", "auto"), seed=0).forecaster.background is False  # type: ignore[union-attr]


def test_the_two_static_plans_are_policies_here_too() -> None:
    least, most = run_cases(cases(*parse_policies("static-min,static-peak")))
    assert [row["policy"] for row in (least, most)] == ["static-min", "static-peak"]
    assert least["saved"] > most["saved"] == 0.0
