from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from foretide.events import Event
from foretide.records import Measurement
from foretide.service.http.problems import Problem
from foretide.service.live import LiveHub
from foretide.service.settings import ServiceSettings
from foretide.store import RecordedRun, RunRecorder, RunSpec, RunStore
from foretide.topology import flow

QUICK = ServiceSettings(poll_s=0.02)


def parsed(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_a_finished_run_is_told_from_the_beginning_and_ended(client: TestClient, store: RunStore) -> None:
    events = parsed(client.get("/v1/runs/latest/stream?after=0").text)
    kinds = [kind for kind, _ in events]
    run = store.run("latest")
    assert kinds.count("measurement") == len(run.measurements()) == 60
    assert [data["id"] for kind, data in events if kind == "decision"] == [one.seq for one in run.decisions()]
    assert kinds.count("event") == len(run.events()) and kinds.count("features") == 6
    assert events[-1][0] == "end" and events[-1][1]["status"] == "finished"
    row = next(data for kind, data in events if kind == "measurement")
    assert row["replicas"] == run.measurements()[0].replicas.tolist()


def test_without_a_place_to_begin_only_what_is_new_is_told(client: TestClient) -> None:
    assert [kind for kind, _ in parsed(client.get("/v1/runs/latest/stream").text)] == ["end"]


def test_a_reader_that_comes_back_goes_on_where_it_was(client: TestClient, store: RunStore) -> None:
    run = store.run("latest")
    seq = run.decisions()[2].seq
    events = parsed(client.get("/v1/runs/latest/stream", headers={"Last-Event-ID": str(seq)}).text)
    assert [data["cycle"] for kind, data in events if kind == "decision"] == [4, 5, 6]


def live_run(folder: Path) -> tuple[RunStore, RunRecorder]:
    job = flow("line")
    job.source("in").operator("a", execution_s=0.01, replicas=(1, 4))
    store = RunStore(folder / "runs.db", threaded=False)
    recorder = store.begin_run(RunSpec(topology=job.build(), started_at_s=0.0))
    store.flush()
    return store, recorder


def measured(recorder: RunRecorder, end_s: float) -> Measurement:
    one = np.array([1.0])
    return Measurement(
        layout=recorder.info.layout, ended_at_s=end_s, duration_s=1.0, arrived=one, passed=one, processed=one,
        queued=one, busy_s=np.array([0.5]), replicas=np.array([2]),
    )  # fmt: skip


async def until(stream: AsyncIterator[bytes], enough: Callable[[list[tuple[str, Any]]], bool]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    async for piece in stream:
        found += parsed(piece.decode())
        if enough(found):
            break
    return found


def test_all_who_follow_a_run_hear_the_same_as_it_comes(tmp_path: Path) -> None:
    store, recorder = live_run(tmp_path)

    async def follow_twice() -> list[list[tuple[str, Any]]]:
        hub = LiveHub(store, QUICK, lambda: recorder.info.created_at_s)
        run = store.run("latest")
        streams = [hub.follow(run, 0) for _ in range(2)]
        tasks = [asyncio.ensure_future(until(stream, lambda found: len(found) >= 4)) for stream in streams]
        await asyncio.sleep(0.05)
        assert hub.open == 2
        for end_s in (1.0, 2.0, 3.0):
            recorder.measured([measured(recorder, end_s)])
            store.flush()
            await asyncio.sleep(0.03)
        recorder.emit(Event(3.0, "plan.applied", "line\n\nbreak, \N{SNOWMAN}"))
        store.flush()
        found = await asyncio.wait_for(asyncio.gather(*tasks), 20)
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        assert hub.open == 0 and not hub._feeds
        return found

    one, other = asyncio.run(follow_twice())
    assert one == other
    assert [data["at_s"] for kind, data in one if kind == "measurement"] == [1.0, 2.0, 3.0]
    assert one[-1][1]["message"] == "line\n\nbreak, \N{SNOWMAN}"
    store.close()


class EndsWhileLookedAt(LiveHub):
    """A hub whose run has its last news, and ends, between a look for news and a look whether it has ended."""

    def __init__(self, store: RunStore, recorder: RunRecorder) -> None:
        super().__init__(store, QUICK, lambda: recorder.info.created_at_s)
        self._recorder = recorder

    def _ending(self, feed: Any) -> bytes:
        self._recorder.measured([measured(self._recorder, 1.0)])
        self._recorder.finish({})
        return super()._ending(feed)


def test_what_comes_right_before_the_end_is_told_before_it(tmp_path: Path) -> None:
    store, recorder = live_run(tmp_path)

    async def to_the_end() -> list[tuple[str, Any]]:
        stream = EndsWhileLookedAt(store, recorder).follow(store.run("latest"), 0)
        return await asyncio.wait_for(until(stream, lambda found: False), 20)

    assert [kind for kind, _ in asyncio.run(to_the_end())] == ["measurement", "end"]
    store.close()


def test_the_end_of_a_run_ends_its_streams(tmp_path: Path) -> None:
    store, recorder = live_run(tmp_path)

    async def to_the_end() -> list[tuple[str, Any]]:
        hub = LiveHub(store, QUICK, lambda: recorder.info.created_at_s)
        run: RecordedRun = store.run("latest")
        task = asyncio.ensure_future(until(hub.follow(run, 0), lambda found: False))
        await asyncio.sleep(0.05)
        recorder.measured([measured(recorder, 1.0)])
        recorder.finish({"saved": 0.5})
        return await asyncio.wait_for(task, 20)

    found = asyncio.run(to_the_end())
    assert [kind for kind, _ in found] == ["measurement", "end"]
    assert found[-1][1]["outcome"] == {"saved": 0.5}
    store.close()


def test_no_more_streams_are_open_than_may(tmp_path: Path) -> None:
    store, recorder = live_run(tmp_path)

    async def one_too_many() -> None:
        hub = LiveHub(store, ServiceSettings(max_streams=1, poll_s=0.02), lambda: recorder.info.created_at_s)
        stream = hub.follow(store.run("latest"), None)
        hub.check_room()
        await anext(stream)
        with pytest.raises(Problem, match="at most 1 live streams"):
            hub.check_room()
        await stream.aclose()  # type: ignore[attr-defined]
        hub.check_room()

    asyncio.run(one_too_many())
    store.close()


def test_closing_the_hub_ends_all_streams(tmp_path: Path) -> None:
    store, recorder = live_run(tmp_path)

    async def close() -> list[tuple[str, Any]]:
        hub = LiveHub(store, QUICK, lambda: recorder.info.created_at_s)
        task = asyncio.ensure_future(until(hub.follow(store.run("latest"), None), lambda found: False))
        await asyncio.sleep(0.05)
        await hub.close()
        return await asyncio.wait_for(task, 20)

    assert asyncio.run(close()) == []
    store.close()
