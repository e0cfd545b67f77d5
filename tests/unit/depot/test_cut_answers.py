"""An object store whose answers are cut off: what was asked for is asked again, and what was written counts once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("obstore")

import obstore
import obstore.exceptions as refusals
from object_stores import keep_in_memory

from foretide.depot import DepotError, objects, open_depot


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_in_memory(monkeypatch)
    monkeypatch.setattr(objects, "_PAUSE_S", 0.0)


def cut(monkeypatch: pytest.MonkeyPatch, name: str, *, done: bool, times: int = 1) -> None:
    """Let the first answers to a call be cut off, after the store has done what was asked, or before."""
    call: Callable[..., Any] = getattr(obstore, name)
    left = [None] * times

    def answer(*arguments: Any, **options: Any) -> Any:
        if not left:
            return call(*arguments, **options)
        left.pop()
        if done:
            call(*arguments, **options)
        raise refusals.GenericError("Generic S3 error: request or response body error")

    monkeypatch.setattr(obstore, name, answer)


@pytest.mark.parametrize("done", [False, True])
def test_what_was_asked_for_is_asked_again(monkeypatch: pytest.MonkeyPatch, done: bool) -> None:
    depot = open_depot("s3://runs/cut")
    for name in ("put", "get", "head", "list", "delete", "copy", "get_ranges"):
        cut(monkeypatch, name, done=done, times=2)
    depot.put("a", b"one")
    assert (depot.read("a"), depot.size("a"), depot.names()) == (b"one", 3, ["a"])
    depot.copy("a", "b")
    assert bytes(depot.read_ranges("b", [(0, 2)])[0]) == b"on"
    assert depot.delete(["a"]) == 1 and depot.names() == ["b"]


@pytest.mark.parametrize("done", [False, True])
def test_who_wrote_an_object_is_told_so_though_the_answer_was_cut_off(
    monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    cut(monkeypatch, "put", done=done)
    assert open_depot("s3://runs/cut").put_if_absent("deal", b"mine")


def test_who_came_second_is_told_so_though_the_answer_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    depot = open_depot("s3://runs/cut")
    depot.put("deal", b"theirs")
    cut(monkeypatch, "put", done=False)
    assert not depot.put_if_absent("deal", b"mine")
    assert depot.read("deal") == b"theirs"


@pytest.mark.parametrize("name", ["put", "delete"])
def test_a_run_starts_though_answers_are_cut_off_for_a_moment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    cut(monkeypatch, name, done=True, times=3)
    depot = open_depot("s3://runs/cut")
    depot.check()
    assert depot.names() == []


def test_a_store_that_stays_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_PATIENCE_S", 0.0)
    cut(monkeypatch, "get", done=False, times=1_000)
    with pytest.raises(DepotError, match=r"s3://runs/cut/a: expected an answer of the object store"):
        open_depot("s3://runs/cut").read("a")
