"""A rehearsal loads what the first cycles need, changes nothing, and never fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from pydantic import PrivateAttr
from topologies import line, step

from foretide.control import ControlSettings
from foretide.control.starting.rehearsal import Rehearsal
from foretide.control.steering import Steering
from foretide.plan import PLANNERS, Planner, Situation
from foretide.records import Plan

LINE = line(step("a", execution_s=0.01), step("b"), replicas=(1, 8))
SETTINGS = ControlSettings.model_validate({"planner": "pasps", "forecaster": "basic"})


class Noted(Planner):
    """A planner that notes what it was asked, and does what it is told."""

    name: ClassVar[str] = "noted"
    summary: ClassVar[str] = "notes"
    spec: ClassVar[tuple[str, ...]] = ()
    needs_forecast: ClassVar[bool] = True
    asked: ClassVar[list[Situation]] = []
    does: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    _learnt: int = PrivateAttr(default=0)

    def plan(self, situation: Situation) -> Plan:
        Noted.asked.append(situation)
        self._learnt += 1
        Noted.does()
        return self.decide(situation, situation.replicas, ())


@pytest.fixture(autouse=True)
def _nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noted, "asked", [])
    monkeypatch.setattr(Noted, "does", staticmethod(lambda: None))


@pytest.mark.parametrize("name", [name for name, kind in PLANNERS.items() if kind.needs_forecast])
def test_every_planner_that_reads_forecasts_can_be_rehearsed(name: str, caplog: Any) -> None:
    settings = SETTINGS.model_copy(update={"planner": name})
    with caplog.at_level("DEBUG"), Rehearsal(LINE, Steering(settings=settings)) as rehearsal:
        assert rehearsal.wait(120.0)
    assert "the rehearsal failed" not in caplog.text


def test_it_plans_for_the_topology_that_will_run_on_a_copy_of_the_planner() -> None:
    planner = Noted()
    with Rehearsal(LINE, Steering(settings=SETTINGS, planner=planner, execution_s={"b": 0.02})) as rehearsal:
        assert rehearsal.wait(60.0)
    [situation] = Noted.asked
    assert situation.topology.layout == LINE.layout
    assert situation.window.execution_s.tolist() == [0.01, 0.02]
    assert planner._learnt == 0, "what it made up must not be learnt"


def test_it_is_ready_when_it_is_over_whatever_became_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def fail() -> None:
        assert go.wait(60.0)
        raise RuntimeError("no compiler")

    monkeypatch.setattr(Noted, "does", staticmethod(fail))
    rehearsal = Rehearsal(LINE, Steering(settings=SETTINGS, planner=Noted()))
    assert rehearsal.ready(), "before it begins, nobody need wait for it"
    rehearsal.start()
    assert not rehearsal.ready()
    go.set()
    assert rehearsal.wait(60.0) and rehearsal.ready()
