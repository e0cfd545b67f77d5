"""The DS2 rule, against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from foretide.plan.base import Situation
from foretide.plan.planners.ds2 import Ds2
from foretide.topology import flow

MakeSituation = Callable[..., Situation]


@pytest.mark.parametrize(
    ("sources", "rate", "first", "second", "expected"),
    [
        (1, 100.0, (50.0, 400.0), 100.0, {"Op1": 2, "Op2": 8}),
        (1, 200.0, (40.0, 700.0), 99.0, {"Op1": 5, "Op2": 36}),
        (1, 200.0, (10.0, 700.0), 201.0, {"Op1": 20, "Op2": 70}),
        (2, 100.0, (50.0, 400.0), 100.0, {"Op1": 4, "Op2": 16}),
        (2, 200.0, (40.0, 700.0), 99.0, {"Op1": 10, "Op2": 71}),
        (2, 200.0, (10.0, 700.0), 201.0, {"Op1": 40, "Op2": 140}),
    ],
)
def test_ds2_gives_the_figures_of_the_reference_implementation(
    make_situation: MakeSituation,
    sources: int,
    rate: float,
    first: tuple[float, float],
    second: float,
    expected: dict[str, int],
) -> None:
    """The rates and counts of the two scaling tests of strymon-system/ds2, controller/tests/scaling_policy_test.rs.

    Each has three epochs: the rate of every source, the true processing and output rate of the first operator, and the
    true processing rate of the second, which emits to nobody.
    """
    job = flow("conformance")
    inputs = [job.source(f"Source{number}") for number in range(sources)]
    job.operator("Op1", inputs=inputs, replicas=(1, 1000)).operator("Op2", replicas=(1, 1000))
    processes, emits = first
    situation = make_situation(
        job.build(),
        arrived=rate,
        share={("Op1", "Op2"): emits / processes},
        execution_s={"Op1": 1 / processes, "Op2": 1 / second},
    )
    assert Ds2().plan(situation).by_operator() == expected


def test_ds2_word_count(make_situation: MakeSituation) -> None:
    """600 sentences in 60 s; a mapper splits 5 a second into 20 words each, a counter takes 50 words a second.

    10/5 = 2 mappers; 10·20 = 200 words a second, so 200/50 = 4 counters.
    """
    job = flow("words")
    job.source("sentences").operator("map").operator("count")
    situation = make_situation(
        job.build(), td_s=60.0, arrived=600.0, share={("map", "count"): 20.0}, execution_s={"map": 0.2, "count": 0.02}
    )
    plan = Ds2().plan(situation)
    by_symbol = {term.symbol: term.values for term in plan.terms}
    assert by_symbol["λ_t"] == pytest.approx([10.0, 200.0])
    assert by_symbol["λ_p"] == pytest.approx([5.0, 50.0])
    assert plan.by_operator() == {"map": 2, "count": 4}


def test_ds2_targets_follow_the_source_not_what_a_congested_operator_lets_through(
    make_situation: MakeSituation,
) -> None:
    situation = make_situation(arrived=500.0, processed=100.0, execution_s=0.01, queued=1e6)
    assert Ds2().plan(situation).replicas.tolist() == [5, 5, 5]


def test_ds2_sums_over_sources(make_situation: MakeSituation) -> None:
    job = flow("two sources")
    job.operator("work", inputs=[job.source("a"), job.source("b")])
    situation = make_situation(job.build(), arrived={"a": 100.0, "b": 250.0}, execution_s=0.01)
    assert Ds2().plan(situation).replicas.tolist() == [4]


def test_ds2_forecasts_nothing(make_situation: MakeSituation) -> None:
    with_forecast = make_situation(arrived=200.0, forecast=1e6)
    assert Ds2().plan(with_forecast).replicas.tolist() == [2, 2, 2]


def test_an_unknown_true_rate_holds_the_replicas(make_situation: MakeSituation) -> None:
    plan = Ds2().plan(make_situation(arrived=200.0, execution_s={"O2": np.nan}, replicas={"O2": 9}))
    assert plan.replicas.tolist() == [2, 9, 2]
