"""Figures of whole runs, as they were: what makes the simulator or a planner faster must not change them."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.control.policies import parse_policies
from foretide.plan.promise import parse_promise
from foretide.sim.compare import Case, calibrated
from foretide.sim.settings import MicroBatch
from foretide.sim.stress import Stress
from foretide.traces import RateTrace

LEVELS = RateTrace("levels", bin_s=15.0, rates=np.array([2000.0, 7000, 7000, 1000, 4000, 10000, 2500, 2500]))
FIGURES = ("saved", "latency_mean_ms", "latency_p99_ms", "changes", "slot_seconds")


@pytest.mark.parametrize(
    ("policy", "batches", "figures"),
    [
        ("foretide:basic", False, [0.21212121212121215, 906.3309165477596, 3502.0117890541137, 44, 780.0]),
        ("pasps:basic", False, [0.2222222222222222, 1537.9642975855875, 5501.912468947554, 28, 770.0]),
        ("ds2", False, [0.38888888888888884, 4535.492063420258, 7127.394057333148, 22, 605.0]),
        ("threshold", False, [-9.55050505050505, 1563.0496699460684, 10758.379479730784, 3, 10445.0]),
        ("foretide:basic", True, [-0.05222680262508561, 720.803745918277, 925.135298455509, 42, 1041.7045345988347]),
        ("pasps:basic", True, [0.17360593626675813, 2851.7490344027833, 6391.986520340917, 28, 818.1301230959094]),
        ("ds2", True, [0.387012931233106, 7470.506816095776, 10577.110708233467, 22, 606.8571980792251]),
    ],
)
def test_results_are_what_they_were(policy: str, batches: bool, figures: list[float]) -> None:
    scenario = calibrated(LEVELS, td_s=5.0, stress=Stress())
    if batches:
        settings = scenario.settings.model_copy(update={"micro_batch": MicroBatch(fixed_s=0.2)})
        scenario = calibrated(LEVELS, td_s=5.0, stress=Stress(), settings=settings)
    [chosen] = parse_policies(policy, "basic")
    row = Case(scenario, chosen, seed=0).row()
    assert [row[name] for name in FIGURES] == pytest.approx(figures, rel=1e-9)


def test_a_promise_is_kept_as_it_was() -> None:
    settings = calibrated(LEVELS, td_s=5.0).settings.model_copy(update={"micro_batch": MicroBatch(fixed_s=0.2)})
    promised = calibrated(LEVELS, td_s=5.0, stress=Stress(), settings=settings, promise=parse_promise("p95<1200ms"))
    [chosen] = parse_policies("foretide", "basic")
    row = Case(promised, chosen, seed=0).row()
    figures = [0.21188673132418012, 888.8904560450756, 1166.9454264748351, 43, 780.2321359890616]
    assert [row[name] for name in FIGURES] == pytest.approx(figures, rel=1e-9)
    assert row["clairvoyant_slot_seconds"] == pytest.approx(746.94, abs=0.01)
