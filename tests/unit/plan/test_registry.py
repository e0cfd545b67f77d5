"""Planners by name."""

from __future__ import annotations

import inspect
import logging
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

import foretide.plan
import foretide.registry
from foretide.errors import ConfigError
from foretide.plan import PLANNERS, Planner, find_planner, make_planner, registry
from foretide.plan.base import Situation
from foretide.plan.registry import ENTRY_POINT_GROUP
from foretide.records import Plan
from foretide.registry import Registry


class Plugin(Planner):
    """A planner of another package."""

    name: ClassVar[str] = "plugin"
    summary: ClassVar[str] = "from elsewhere"
    spec: ClassVar[tuple[str, ...]] = ("X",)

    step: int = 1

    def plan(self, situation: Situation) -> Plan:
        return self.decide(situation, situation.replicas + self.step, ())


NOT_A_PLANNER = object


def test_all_planners_in_order() -> None:
    ours = "foretide static srea spea presps pasps autoscale autoscale-plus"
    assert list(PLANNERS) == [*ours.split(), *"cba optimal incremental rlearning ds2 flink threshold keda".split()]


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_says_what_it_is(name: str) -> None:
    planner = make_planner(name)
    assert isinstance(planner, PLANNERS[name])
    assert planner.name == name
    assert planner.summary and all(planner.spec)
    assert planner.spec
    assert all(field.description for field in type(planner).model_fields.values())
    assert inspect.getdoc(type(planner))


def test_the_package_exports_what_it_names() -> None:
    assert {kind.__name__ for kind in PLANNERS.values()} <= set(foretide.plan.__all__)
    assert all(hasattr(foretide.plan, name) for name in foretide.plan.__all__)


def test_settings_reach_the_planner() -> None:
    planner = make_planner("autoscale-plus", beta=0.5, combine="min")
    assert planner.model_dump(include={"beta", "combine"}) == {"beta": 0.5, "combine": "min"}


def test_an_unknown_planner_names_the_known_and_the_closest() -> None:
    with pytest.raises(ConfigError, match=r"static, srea.*'autoscal-plus'; did you mean 'autoscale-plus'\?"):
        make_planner("autoscal-plus")


@pytest.mark.parametrize(
    "name, settings, setting",
    [
        ("autoscale", {"beta": 2}, "planner.autoscale.beta"),
        ("autoscale", {"betta": 0.5}, "planner.autoscale.betta"),
        ("static", {"by_operator": {"a": "many"}}, "planner.static.by_operator.a"),
        ("incremental", {"low": 0.9}, "planner.incremental"),
    ],
)
def test_a_wrong_setting_is_named(name: str, settings: dict[str, object], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_planner(name, **settings)
    assert caught.value.setting == setting


def test_an_error_of_ours_inside_a_planner_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="learn it again") as caught:
        make_planner("rlearning", knowledge_file=tmp_path / "none.npz")
    assert caught.value.setting == "planner.rlearning.knowledge_file"


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announce a good planner, one that cannot be imported, one that is none, and one with a name of ours."""
    here = f"{__name__}:"
    found = [
        EntryPoint("plugin", f"{here}Plugin", ENTRY_POINT_GROUP),
        EntryPoint("missing", "no_such_package:Planner", ENTRY_POINT_GROUP),
        EntryPoint("wrong", f"{here}NOT_A_PLANNER", ENTRY_POINT_GROUP),
        EntryPoint("pasps", f"{here}Plugin", ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(EntryPoint, "load", lambda entry: _load(entry))
    monkeypatch.setattr(foretide.registry, "entry_points", lambda group: found if group == ENTRY_POINT_GROUP else [])
    monkeypatch.setattr(registry, "_REGISTRY", Registry("planner", ENTRY_POINT_GROUP, PLANNERS, Planner))


def _load(entry: EntryPoint) -> object:
    module, _, name = entry.value.partition(":")
    if module != __name__:
        raise ModuleNotFoundError(f"No module named {module!r}")
    return globals()[name]


@pytest.mark.usefixtures("announced")
def test_planners_of_other_packages_are_found() -> None:
    assert make_planner("plugin", step=2) == Plugin(step=2)
    with pytest.raises(ConfigError, match=r"planner\.plugin\.step"):
        make_planner("plugin", step="far")


@pytest.mark.usefixtures("announced")
def test_a_broken_planner_of_another_package_is_reported_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(ConfigError, match="plugin"):
        make_planner("missing")
    assert [name for name in ("missing", "wrong") if name in caplog.text] == ["missing", "wrong"]
    assert make_planner("plugin").name == "plugin"


@pytest.mark.usefixtures("announced")
def test_another_package_cannot_replace_ours() -> None:
    assert find_planner("pasps") is PLANNERS["pasps"]
