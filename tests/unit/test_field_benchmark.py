"""The field side by side: failures are findings, nothing is dropped in silence, and no run inherits from another."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from benchmark_modules import BENCHMARKS, benchmark_module

from foretide.apps.twitter_detection import DETECTORS
from foretide.traces.payloads import payload


@pytest.fixture
def field(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [*sys.path])
    return benchmark_module("field")


@pytest.fixture
def systems() -> ModuleType:
    return benchmark_module("_field")


@pytest.fixture
def harness() -> ModuleType:
    return benchmark_module("_harness")


Part = Callable[..., dict[str, float]]


class Scripted:
    """A field whose parts do as they are told, by system and part."""

    def __init__(self, field: Any, tmp_path: Path, options: Any, **does: Exception) -> None:
        self.field, self._does, self.asked = field.Field("", tmp_path, options), does, list[str]()
        self.field.throughput = lambda system: self._part(system, "throughput", {"events_per_cpu_s": 100.0})
        self.field.latency = lambda system, rate: self._part(system, "latency", {f"p50_ms_{rate}": 5.0})
        self.field.disturbed = lambda system, name, *_, **__: self._part(system, name, {f"{name}_silence_s": 2.0})

    def _part(self, system: Any, name: str, found: dict[str, float]) -> dict[str, float]:
        self.asked.append(f"{system.name} {name}")
        error = self._does.get(f"{system.name}_{name}".lower())
        if error is not None:
            raise error
        return found


def test_what_fails_is_kept_as_a_finding_with_its_commit_and_the_rest_is_measured(
    field: Any, systems: Any, harness: Any, tmp_path: Path
) -> None:
    error = RuntimeError(f"Bytewax: expected the job to run\n{tmp_path}/job.py: no rescale\n")
    options = harness.Options(repeats=1)
    scripted, turns = Scripted(field, tmp_path, options, bytewax_rescale=error), harness.Turns(tmp_path / "kept.jsonl")
    both = [one for one in systems.SYSTEMS if one.name in ("Foretide", "Bytewax")]
    field.measure(both, scripted.field, options, turns)
    ours, other = turns.rows
    assert ours["value"]["failed"] == {} and other["value"]["failed"] == {"rescale": "/job.py: no rescale"}
    assert other["value"]["recovery_silence_s"] == 2.0 and "rescale_silence_s" not in other["value"]
    assert all(row["commit"] and row["processor"] for row in turns.rows)
    asked = len(scripted.asked)
    field.measure(both, scripted.field, options, turns)
    assert len(scripted.asked) == asked == 10
    rows = [{"system": row["part"], **row["value"]} for row in turns.rows]
    assert field.failures(rows) == " Rounds that failed: Bytewax, rescale, in 1: /job.py: no rescale."
    assert field.figure(rows, "Bytewax", "rescale_silence_s") == "failed"


def test_a_system_that_cannot_be_had_is_shown_as_skipped(
    field: Any, systems: Any, harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, told = harness.Options(repeats=2), dict[str, Any]()
    away = systems.UnavailableError("Pathway: expected pip to install pathway")
    scripted, turns = (
        Scripted(field, tmp_path, options, pathway_throughput=away),
        harness.Turns(tmp_path / "kept.jsonl"),
    )
    field.measure(list(systems.SYSTEMS), scripted.field, options, turns)
    assert scripted.asked.count("Pathway throughput") == 1
    monkeypatch.setattr(field, "report", lambda *given, tables, **_: told.update(lines=given[2], table=tables[0]))
    field.write(turns.rows, options)
    rows = {row[0]: row[2:] for row in told["table"].rows}
    assert list(rows) == [one.name for one in systems.SYSTEMS]
    assert set(rows["Pathway"]) == {"skipped"} and rows["Quix Streams"][0] == "100"
    assert [line.ratio.pairs for line in told["lines"]] == [(1.0, 1.0)] * 4


def test_a_failure_is_told_by_its_error(field: Any, tmp_path: Path) -> None:
    text = f"Traceback\n  File {tmp_path}/job.py\nKafkaError: fenced\n[INFO] the other process goes on\n"
    assert field.reason(RuntimeError(text), tmp_path) == "KafkaError: fenced"
    assert field.reason(RuntimeError(f"no event in {tmp_path}/out\n"), tmp_path) == "no event in /out"
    assert field.reason(TimeoutError(), tmp_path) == "TimeoutError"


@pytest.mark.parametrize(("best", "failed"), [(max, 0.0), (min, math.inf)])
def test_where_ours_fails_it_counts_as_worst(field: Any, systems: Any, best: Any, failed: float) -> None:
    rounds = {
        0: {
            "Foretide": {"speed": 6.0},
            "Foretide live": {"speed": 9.0},
            "Bytewax": {"speed": 3.0},
            "Pathway": {"speed": 2.0},
        },
        1: {"Foretide": {}, "Bytewax": {"speed": 3.0}, "Pathway": {}},
        2: {"Foretide": {"speed": 1.0}, "Bytewax": {}},
    }
    assert field.against(rounds, systems.OURS[0], "speed", best, failed).pairs == (6.0 / best(3.0, 2.0), failed)


def test_a_stream_that_never_comes_back_is_silent_to_the_end(field: Any) -> None:
    assert field.silence([9.0, 10.5, 11.0], 10.0, 40.0) == 29.0
    assert field.silence([9.0, 10.5, 12.0, 13.0, 45.0], 10.0, 14.0) == 1.5
    assert field.silence([], 10.0, 40.0) == 30.0


def test_events_that_did_not_come_any_more_are_lost_too(field: Any) -> None:
    assert field.missed([0, 1, 1, 3], 6) == {"lost": 3.0, "repeated": 1.0}


def test_throughput_is_not_measured_while_there_is_nothing_to_do(field: Any) -> None:
    samples = [field.Sample(float(at), 2.0 * at, 100 * min(at, 10)) for at in range(13)]
    first, last = field.counted(samples[:11], 1_000, warm_s=20.0)
    assert (first.events, last.events) == (200, 1_000)
    first, last = field.counted(samples[:8], 1_000, warm_s=5.0)
    assert (first.at_s, last.at_s) == (5.0, 7.0)
    # All at once: from the first event on.
    assert field.counted([field.Sample(0.0, 0.0, 1), field.Sample(0.1, 0.1, 1_000)], 1_000, 5.0)[0].events == 1


NOTE = "import os, pathlib, time; file = pathlib.Path(os.environ['FIELD_STATE'], 'runs'); "
RUN = NOTE + "file.write_text((file.read_text() if file.exists() else '') + 'x'); time.sleep(60)"


def test_a_job_recovers_from_its_own_folder_and_from_no_other(systems: Any, tmp_path: Path) -> None:
    python = ("{python}", "-c")
    system = systems.System(
        "fake", (), (*python, RUN), "restart", "", prepared=(*python, NOTE + "file.write_text('p')")
    )
    runs = tmp_path / "job" / "state" / "runs"

    def has(text: str) -> bool:
        deadline_s = time.monotonic() + 30.0
        while time.monotonic() < deadline_s:
            if runs.exists() and runs.read_text() == text:
                return True
            time.sleep(0.02)
        return False

    for _ in range(2):
        with systems.start(system, "servers in out", tmp_path / "job", 1) as job:
            assert has("px")
            job.kill()
            job.restart(1)
            assert has("pxx")
            job.check()
    assert set(json.loads((tmp_path / "job" / "keywords.json").read_text())) > {"topic", "category"}


def test_what_cannot_be_installed_is_no_fault_of_the_system(
    systems: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(systems.sys, "executable", "false")
    [pathway] = [one for one in systems.SYSTEMS if one.name == "Pathway"]
    with pytest.raises(systems.UnavailableError, match="Pathway: expected pip to install pathway"):
        pathway.python()
    assert replace(pathway, packages=()).python() == Path("false")


def test_every_job_of_the_field_belongs_to_a_system(systems: Any) -> None:
    words = " ".join(word for system in systems.SYSTEMS for word in system.command)
    jobs = [path.stem for path in (BENCHMARKS / "field_jobs").glob("*_job.py")]
    assert jobs and all(job in words for job in jobs)


def test_operators_on_one_event_find_what_ours_find_on_batches(
    systems: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = systems.System("fake", (), ("{python}", "-c", ""), "restart", "")
    with systems.start(fake, "servers in out", tmp_path / "job", 1):
        monkeypatch.setenv("FIELD_KEYWORDS", str(tmp_path / "job" / "keywords.json"))
    spec = importlib.util.spec_from_file_location("field_operators", BENCHMARKS / "field_jobs" / "operators.py")
    assert spec is not None and spec.loader is not None
    operators = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(operators)
    ours = payload("tweets")(np.arange(500)).select(["text"])
    events: list[dict[str, Any]] = ours.to_pylist()
    for _, operator in operators.operators():
        events = [operator(event) for event in events]
    for detector, _ in DETECTORS:
        ours = detector(ours)
    assert events == ours.to_pylist()
    assert len({event["subcategory"] for event in events}) > 2
