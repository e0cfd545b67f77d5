"""What all applications have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from foretide.apps import APPS, SINK, App, find_app
from foretide.apps.twitter_complex import count_trend
from foretide.apps.url_count import TICK_MS
from foretide.clock import ManualClock
from foretide.errors import ConfigError
from foretide.sim import SimulatedSystem
from foretide.topology import Topology, dump_topology
from foretide.traces import RateTrace, payload

# Values are spread in two ways by the DABS applications; waits would only make tests slow.
CASES: list[tuple[str, dict[str, Any]]] = [
    ("twitter-detection", {"paced": False}),
    ("twitter-classification", {"lookup_ms": 0}),
    ("twitter-complex", {"lookup_ms": 0, "speed": 0.5, "trend_s": 1}),
    ("dns", {"paced": False}),
    ("logs", {"paced": False}),
    ("url-count", {}),
    ("continuous-queries", {"scan_ms": 0}),
    ("dabs-insensitive", {"work_ms": 0}),
    ("dabs-insensitive", {"work_ms": 0, "values": "zipf"}),
    ("dabs-sensitive", {"work_ms": 0}),
    ("dabs-sensitive", {"work_ms": 0, "values": "zipf"}),
    ("dabs-complex", {"work_ms": 0}),
    ("dabs-complex", {"work_ms": 0, "values": "zipf"}),
]


def merged(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Merge partial counts into windows of two minutes that begin every 30 s, as Spark does."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    counts: dict[tuple[int, str], int] = {}
    for row in rows:
        second = int(row["time"].timestamp())
        for start in range(second - second % 30, second - 120, -30):
            counts[start, row["url"]] = counts.get((start, row["url"]), 0) + row["count"]
    found = [{"window_s": start, "url": url, "count": count} for (start, url), count in counts.items()]
    return [pa.RecordBatch.from_pylist(found)]


def counted(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Count the trend of tweets batch by batch, with the states kept here."""
    known: dict[Any, float] = {}
    found = []
    for batch in batches:
        rows = batch.to_pandas()
        keys = pd.MultiIndex.from_frame(rows[["window_s", "kind", "subject"]].drop_duplicates())
        state = pd.DataFrame({"count": [known.get(key, np.nan) for key in keys], "ends": pd.NaT}, index=keys)
        counts, state = count_trend(rows, state, trend_s=1)
        known.update(state["count"].to_dict())
        found.append(pa.RecordBatch.from_pandas(counts, preserve_index=False))
    return found


# Operators of two applications have these names.
FRAMES = {"url-count": {"merge": merged}, "twitter-complex": {"trend": counted}}


def source_payload(topology: Topology) -> str:
    return str(topology.sources[0].connector.options["payload"])


def test_every_application_is_covered_here() -> None:
    assert {name for name, _ in CASES} == set(APPS)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_operators_by_hand_give_exactly_what_is_expected(
    name: str, options: dict[str, Any], run_by_hand: Callable[..., Any], short_trace: str
) -> None:
    app = find_app(name)
    options = {"trace": short_trace, "rate_scale": 1.0, **options}
    run = run_by_hand(app, options, frames=FRAMES.get(name))
    assert run.failed == 0
    for sink, output in app.outputs.items():
        expected = app.expected(options, sink=sink)
        assert app.results(run.stored(sink), sink) == expected
        assert len(expected) > 20 and all(len(row) == len(output.columns) for row in expected)
        # Other events, other results: the comparison is not empty.
        assert app.expected({**options, "seed": 1}, sink=sink) != expected


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.slow
def test_declared_shares_are_near_those_of_the_operators(
    name: str, options: dict[str, Any], run_by_hand: Callable[..., Any], short_trace: str
) -> None:
    app = find_app(name)
    run = run_by_hand(app, {"trace": short_trace, "rate_scale": 10.0, **options}, piece=500, frames=FRAMES.get(name))
    for operator in app.build(options).operators:
        assert set(operator.selectivity) == set(operator.outputs), operator.id
        for output, share in operator.selectivity.items():
            if operator.mode != "dataframe" and not operator.key:  # a state's output goes by batches, not by events
                assert run.share(operator.id, output) == pytest.approx(share, abs=0.05), (operator.id, output)


@pytest.mark.parametrize("app", APPS.values(), ids=lambda app: app.name)
class TestDeclaration:
    def test_it_has_what_a_simulator_and_a_planner_need(self, app: App[Any]) -> None:
        topology = app.build()
        assert topology.name == app.name and app.summary and app.spec
        assert np.isfinite(topology.declared_execution_s).all()
        assert {sink.id for sink in topology.sinks} == {SINK, *app.further}
        assert dump_topology(topology)["name"] == app.name

    def test_it_runs_in_the_simulator(self, app: App[Any]) -> None:
        clock = ManualClock()
        system = SimulatedSystem(app.build(), RateTrace("flat", 1.0, [50.0] * 20), clock=clock)
        clock.sleep_s(25.0)
        steps = system.collect()
        assert (system.totals.received, system.totals.processed) == (1000, 1000)
        assert sum(step.processed for step in steps).min() > 0

    def test_events_depend_on_id_and_seed_alone(self, app: App[Any]) -> None:
        make = payload(source_payload(app.build()))
        whole = make(np.arange(300), seed=4)
        assert pa.concat_batches([make(np.arange(0, 7), 4), make(np.arange(7, 300), 4)]) == whole
        assert make(np.array([299, 7]), 4).to_pylist() == [whole.to_pylist()[299], whole.to_pylist()[7]]
        assert make(np.arange(300), seed=5) != whole
        whole.validate(full=True)

    def test_an_unknown_option_is_named_with_the_one_that_was_meant(self, app: App[Any]) -> None:
        with pytest.raises(ConfigError, match=rf"'{app.name}.rate_scal'.*did you mean 'rate_scale'"):
            app.build({"rate_scal": 1.0})

    def test_options_may_be_texts_and_are_checked(self, app: App[Any]) -> None:
        options = app.build({"rate_scale": "0.5", "seed": "7"}).sources[0].connector.options
        assert (options["rate_scale"], options["seed"]) == (0.5, 7)
        with pytest.raises(ConfigError, match=rf"'{app.name}.speed': expected greater than 0"):
            app.build({"speed": "0"})


@pytest.mark.parametrize(
    ("store", "kind", "options"),
    [
        ("none", "none", {}),
        ("memory", "memory", {}),
        ("a/b.db", "sqlite", {"path": "a/b.db"}),
        ("b.sqlite", "sqlite", {"path": "b.sqlite"}),
        ("postgresql://ann@host/shop", "postgres", {"url": "postgresql://ann@host/shop"}),
        ("rows", "parquet", {"path": "rows"}),
    ],
)
def test_the_store_is_chosen_by_its_name(store: str, kind: str, options: Mapping[str, str]) -> None:
    [sink] = find_app("dns").build({"store": store}).sinks
    assert (sink.connector.kind, sink.connector.options) == (kind, options)


@pytest.mark.parametrize(
    ("store", "options"),
    [("a/b.db", {"path": "a/b.db"}), ("rows", {"path": "rows-trends"}), ("memory", {})],
)
def test_a_second_sink_has_a_table_or_a_directory_of_its_own(store: str, options: Mapping[str, str]) -> None:
    found = {sink.id: sink.connector for sink in find_app("twitter-complex").build({"store": store}).sinks}
    assert found["trends"].kind == found[SINK].kind and found["trends"].options == options


def test_event_times_follow_from_the_instant_at_which_a_trace_begins() -> None:
    app, options = find_app("dns"), {"rate_scale": 1e-5, "started_at": 1_000_000.0}
    assert app.build(options).sources[0].connector.options["started_at"] == 1_000_000.0
    times, begun = (
        [event.timestamp() for event in app.read_options(given).events()["event_time"].to_pylist()]
        for given in ({"rate_scale": 1e-5}, options)
    )
    assert begun == pytest.approx([time + 1_000_000.0 for time in times])


def test_an_unknown_application_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"one of twitter-detection, .*, got 'weather'; `foretide apps`"):
        find_app("weather")


def test_a_payload_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected module:name of a Payload, got 'foretide\.apps\.dns:NONE'"):
        payload("foretide.apps.dns:NONE")
    with pytest.raises(ConfigError, match="expected module:name of a Payload, got 'no_such:NONE'"):
        payload("no_such:NONE")
    with pytest.raises(ConfigError, match=r"a Payload called 'foretide\.apps\.dns:APP', got App"):
        payload("foretide.apps.dns:APP")


def test_i7_the_ticks_of_partial_counts_are_half_a_second() -> None:
    assert TICK_MS == 500
