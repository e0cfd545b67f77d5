"""Sessions that scripts make, and what attaching to them says; applications and attachments are made up."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from foretide.errors import ActuatorError
from foretide.events import Event
from foretide.spark.attached import hook as module
from foretide.spark.attached.hook import SessionHook
from foretide.spark.attached.settings import AttachSettings


class Attached:
    """Remembers what was asked of it."""

    def __init__(self, queries: tuple[Any, ...] = ()) -> None:
        self.queries, self.decisions, self.run_id = queries, (), "run"
        self.stopped, self.heard = 0, []  # type: ignore[var-annotated]

    def stop(self) -> None:
        self.stopped += 1

    def listen(self, session: Any) -> None:
        self.heard.append(session)


def session(master: str = "spark://here:7077") -> Any:
    context = SimpleNamespace(appName="orders", applicationId="app-1", master=master)
    return SimpleNamespace(sparkContext=context)


def hooked(attached: Any = None, **settings: Any) -> tuple[SessionHook, list[str], Any]:
    lines: list[str] = []
    found = attached if attached is not None else Attached()

    def attach(spark: Any, given: AttachSettings, events: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    return SessionHook(AttachSettings(**settings), lines.append, attach), lines, found


class TestSessionHook:
    def test_an_application_is_attached_to_once_and_let_go_of_when_it_stops(self) -> None:
        hook, lines, attached = hooked()
        made = session()
        for _ in range(3):
            hook.made(made)
        assert [line.partition(":")[0] for line in lines] == ["attached to 'orders' (app-1) on spark"]
        hook._ends(made.sparkContext)
        hook.finish()
        assert attached.stopped == 1
        assert lines[1:] == ["'orders' (app-1) started no streaming query; nothing was scaled"]

    def test_an_application_that_is_started_again_is_attached_to_again(self) -> None:
        hook, lines, attached = hooked()
        first = session()
        hook.made(first)
        hook._ends(first.sparkContext)
        hook.made(session())
        assert len(lines) == 1  # which was said before
        hook.finish()
        assert attached.stopped == 2

    def test_a_further_session_of_the_same_application_is_heard(self) -> None:
        hook, _, attached = hooked()
        first = session()
        hook.made(first)
        second = SimpleNamespace(sparkContext=first.sparkContext)
        hook._also(second)
        assert attached.heard == [second]

    def test_what_is_wrong_later_is_told_once(self) -> None:
        hook, lines, _ = hooked()
        hook.made(session())
        for event in (
            Event(1.0, "plan.applied", "2 executors"),
            Event(2.0, "executors.missing", "expected 4 executors, got 2 after 60 s", "warning"),
            Event(3.0, "executors.missing", "expected 4 executors, got 3 after 75 s", "warning"),
            Event(4.0, "query.failed", "query 'orders' failed", "error"),
        ):
            hook.emit(event)
        assert lines[1:] == ["expected 4 executors, got 2 after 60 s", "query 'orders' failed"]

    @pytest.mark.parametrize(
        ("error", "said"),
        [(ActuatorError("master 'local[2]': slots only"), "it is: master"), (KeyError("x"), "it is: KeyError: 'x'")],
    )
    def test_whatever_fails_costs_one_line(self, error: Exception, said: str) -> None:
        hook, lines, _ = hooked(error)
        made = session()
        hook.made(made)
        hook.made(made)
        hook.finish()
        [line] = lines
        assert said in line

    def test_spark_connect_is_told_apart(self) -> None:
        hook, lines, _ = hooked()
        hook.made(type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})())
        hook.finish()
        [line] = lines
        assert "Spark Connect" in line

    def test_without_a_session_that_is_said(self) -> None:
        hook, lines, _ = hooked()
        hook.finish()
        assert lines == ["the script made no Spark session; nothing was scaled"]

    def test_pyspark_tells_of_sessions_and_is_left_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = session()
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda self: made)
        monkeypatch.setattr(SparkSession, "__init__", lambda *_: None)
        monkeypatch.setattr(SparkContext, "stop", lambda self: None)
        before = SparkSession.Builder.getOrCreate, SparkSession.__init__, SparkSession.newSession, SparkContext.stop
        hook, lines, _ = hooked()
        seen: list[Any] = []
        monkeypatch.setattr(hook, "made", seen.append)
        hook.install()
        assert SparkSession.builder.getOrCreate() is made
        own = SparkSession(made.sparkContext)
        SparkSession(made.sparkContext, object())  # type: ignore[arg-type]
        assert seen == [made, own]
        monkeypatch.setattr(hook, "made", lambda found: 1 / 0)
        assert SparkSession.builder.getOrCreate() is made
        assert lines == ["the job runs on without it: ZeroDivisionError: division by zero"]
        hook.remove()
        assert before == (
            SparkSession.Builder.getOrCreate,
            SparkSession.__init__,
            SparkSession.newSession,
            SparkContext.stop,
        )

    def test_a_summary_has_the_executors_of_every_decision(self, tmp_path: Path) -> None:
        query = SimpleNamespace(id="q", name="orders", batches=3, rows=30)
        hook, lines, attached = hooked(Attached((query,)))
        counts = [SimpleNamespace(sum=lambda n=n: n) for n in (1, 2, 2)]
        actions = [*(SimpleNamespace(planned=one, requested=one, observed=one) for one in counts), None]
        attached.decisions = tuple(SimpleNamespace(at_s=1.0, action=action) for action in actions)
        hook.made(session())
        hook.finish(tmp_path / "out.json")
        [found] = json.loads((tmp_path / "out.json").read_text())
        assert (found["name"], found["application"], found["master"]) == ("orders", "app-1", "spark://here:7077")
        assert found["attached"] and found["queries"][0]["rows"] == 30
        assert [one["requested"] for one in found["decisions"]] == [1, 2, 2]
        assert lines[-1] == "'orders' (app-1): 3 decisions, 1 changes, 1.7 executors on average"


def test_warnings_come_as_single_lines() -> None:
    record = logging.LogRecord("foretide.x", logging.WARNING, "f", 1, "lost %s", ("it",), None)
    assert module._OneLine("foretide: %(message)s").format(record) == "foretide: lost it"
    record.exc_info = (ValueError, ValueError("a\nb"), None)
    assert module._OneLine("foretide: %(message)s").format(record) == "foretide: lost it: a b"
