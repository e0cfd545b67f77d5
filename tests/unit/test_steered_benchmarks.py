"""Benchmarks of steered topologies tell of which commits and processors their runs are, and run as the command does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmark_modules import benchmark_module

from foretide.commands.running.run import TRIGGER_S
from foretide.spark.driver.run import RunOptions

OF_ALL = {"slot_seconds": 10.0, "latency_p95_ms": 5.0}


def report_of(module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return the introduction of a benchmark's report, made of what it keeps in a folder."""
    told: dict[str, str] = {}
    arguments = [module.__name__, "--quick", "--repeats", "2", "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(module, "QUICK", tmp_path)
    monkeypatch.setattr(module, "report", lambda *_, intro, **__: told.update(intro=intro))
    module.main()
    return told["intro"]


def test_the_report_on_nexmark_names_the_commits_of_its_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    module: Any = benchmark_module("nexmark_steered")
    rows = [
        {**OF_ALL, "query": "q7", "peak_rate": 100.0, "policy": policy, "round": number, **made_of(number)}
        for number in (0, 1)
        for policy in (module.OURS, module.STATIC)
    ]
    monkeypatch.setattr(module, "measure", lambda *_: None)
    monkeypatch.setattr(module, "kept_rows", lambda _: rows)
    intro = report_of(module, monkeypatch, tmp_path)
    assert intro.endswith(" Runs by commit and processor: 2 of c0 (X), 2 of c1 (X).")


class TestLiveStages:
    @pytest.fixture
    def module(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setattr(sys, "path", [*sys.path])
        module: Any = benchmark_module("live_steered")
        monkeypatch.setattr(module, "open_session", lambda _: Session())
        monkeypatch.setattr(module, "Broker", lambda *_, **__: nullcontext())
        return module

    def test_its_report_names_the_commits_of_its_runs(
        self, module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        commits = iter([made_of(0), made_of(0), made_of(1), made_of(1)])
        monkeypatch.setattr(benchmark_module("_harness"), "origin", lambda: next(commits))
        monkeypatch.setattr(module, "run_one", lambda *_: OF_ALL)
        intro = report_of(module, monkeypatch, tmp_path)
        assert intro.endswith(" Runs by commit and processor: 2 of c0 (X), 2 of c1 (X).")

    def test_runs_that_are_kept_are_not_made_again_unless_the_trace_is_replayed_otherwise(
        self, module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        made: list[tuple[str, float]] = []

        def run_one(_: object, __: object, policy: str, speed: float, ___: object) -> Mapping[str, float]:
            made.append((policy, speed))
            return OF_ALL

        monkeypatch.setattr(module, "run_one", run_one)
        turns = module.Turns(tmp_path / "kept.jsonl")
        short, long = module.Options(quick=True, repeats=1), module.Options(repeats=1)
        for options in (short, short, long):
            module.measure(options, turns)
        assert [speed for _, speed in made] == [10.0, 10.0, 1.0, 1.0]
        assert {policy for policy, _ in made} == {module.OURS, module.STATIC}


@pytest.mark.parametrize(("live", "trigger_s"), [(True, 0.0), (False, TRIGGER_S)])
def test_stages_are_triggered_as_by_the_command(
    live: bool, trigger_s: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module: ModuleType = benchmark_module("_steered")
    given: list[RunOptions] = []

    class Run:
        result = None

        def __init__(self, spark: object, options: RunOptions, steering: object) -> None:
            given.append(options)

        def __enter__(self) -> Run:
            return self

        def __exit__(self, *_: object) -> None: ...

        def progress(self) -> list[object]:
            return []

        def drain(self) -> None: ...

    monkeypatch.setattr(module, "SteeredTopologyRun", Run)
    job: Any = benchmark_module("live_steered").topology("127.0.0.1:1", "out", 1.0)
    request: Any = module.RunRequest(named=job.name, td_s=3.0, store="none")
    module.run_steered(Session(), job, tmp_path, request, None, 1.0, live=live)
    assert given[0].settings.live is live and given[0].settings.trigger_s == trigger_s


class Session:
    """Stands for a session of Spark, which these tests have no need of."""

    def stop(self) -> None: ...


def made_of(number: int) -> dict[str, str]:
    return {"commit": f"c{number}", "processor": "X"}
