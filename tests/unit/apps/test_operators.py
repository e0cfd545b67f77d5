"""Operators of the applications on small inputs, worked out by hand."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from foretide.apps import (
    continuous_queries,
    dabs_complex,
    dabs_insensitive,
    dabs_sensitive,
    dns,
    logs,
    twitter_classification,
    twitter_complex,
    twitter_detection,
    url_count,
)
from foretide.apps.authors import UNKNOWN, USERS, AuthorLookup, author
from foretide.apps.pacing import Paced
from foretide.apps.values import VALUES, cost_s, mean_cost_s

NOW = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


def batch(**columns: Any) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    made = pa.RecordBatch.from_pydict({"id": list(range(rows)), **columns})
    return made.append_column("event_time", pa.repeat(pa.scalar(NOW, pa.timestamp("us", tz="UTC")), rows))


def columns_of(found: pa.RecordBatch | pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(found[name].to_pylist() for name in names), strict=True))


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list in which sleeps are noted down; nobody sleeps."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


class TestPaced:
    def test_what_is_left_of_the_time_is_waited_for(self, slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
        instants = iter([10.0, 10.5])
        monkeypatch.setattr(time, "perf_counter", lambda: next(instants))
        assert Paced(lambda rows: rows.slice(1), event_s=0.4)(batch(value=[1, 2])).num_rows == 1
        assert slept == [pytest.approx(0.3)]

    def test_an_operator_that_took_too_long_waits_for_nothing(
        self, slept: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        instants = iter([10.0, 12.0])
        monkeypatch.setattr(time, "perf_counter", lambda: next(instants))
        Paced(lambda rows: rows, event_s=0.4)(batch(value=[1, 2]))
        assert slept == [0.0]

    @pytest.mark.parametrize("module", [dns, logs, twitter_detection])
    def test_a_declared_time_is_the_one_that_is_kept(self, module: Any) -> None:
        for operator in module.APP.build().operators:
            assert operator.function.event_s == operator.execution_s  # type: ignore[union-attr]
        for operator in module.APP.build({"paced": False}).operators:
            assert not isinstance(operator.function, Paced) and operator.execution_s < 0.0001  # type: ignore[operator]


class TestTwitter:
    def test_a_lookup_waits_for_each_row_of_its_piece(self, slept: list[float]) -> None:
        found = AuthorLookup(wait_s=0.003)(batch(user=["user1", f"user{USERS}", "user1"]))
        assert slept == [pytest.approx(0.009)]
        assert columns_of(found, "country", "role", "followers") == [author(1), UNKNOWN, author(1)]

    def test_a_lookup_of_nobody_gives_the_columns(self) -> None:
        found = AuthorLookup()(batch(user=pa.array([], pa.string())))
        assert found.schema.names == ["id", "user", "event_time", "country", "role", "followers"]

    def test_p9_the_record_holds_the_size_of_the_audience(self) -> None:
        texts = {name: ["x"] * 4 for name in ("user", "text", "sentiment", "country", "role")}
        found = twitter_classification.make_record(batch(**texts, followers=[999, 1000, 99_999, 100_000]))
        assert found["audience"].to_pylist() == ["small", "medium", "medium", "large"]
        assert "text" not in found.schema.names

    def test_p9_news_and_opinions_part_and_meet(self) -> None:
        rows = twitter_complex.clean(batch(user=["a", "b"], text=["  The VOTE  is on", "I love\tthe vote"]))
        assert rows["text"].to_pylist() == ["the vote is on", "i love the vote"]
        parts = twitter_complex.split(rows)
        assert {name: part["id"].to_pylist() for name, part in parts.items()} == {"opinion": [1], "news": [0]}
        news = parts["news"].append_column("topic", pa.array(["politics"]))
        news = news.append_column("urgency", pa.array(["report"]))
        opinion = parts["opinion"].append_column("role", pa.array(["expert"]))
        opinion = opinion.append_column("sentiment", pa.array(["positive"]))
        records = [twitter_complex.make_record(twitter_complex.merge(part)) for part in (news, opinion)]
        assert [record["label"].to_pylist() for record in records] == [
            ["news/politics/report"],
            ["opinion/expert/positive"],
        ]
        assert records[0].schema == records[1].schema


class TestDns:
    def test_p9_a_query_becomes_a_class(self) -> None:
        lines = [
            "10.0.1.2 mail.net.example A NOERROR",
            "10.0.1.2 0123456789abcdef.data.relay.example TXT NXDOMAIN",
            "10.0.1.2 aaaaaaaaaaaaaaaa.data.relay.example A NOERROR",
            "10.0.1.2 mail.net.example TXT NXDOMAIN",
        ]
        measured = dns.measure(dns.parse(batch(text=lines)))
        assert columns_of(measured, "length", "labels", "digits")[:2] == [(16, 3, 0), (35, 4, 10)]
        found = dns.make_record(dns.classify(measured))
        assert columns_of(found, "score", "class") == [
            (0, "normal"),
            (6, "tunnel"),
            (2, "suspicious"),
            (2, "suspicious"),
        ]

    def test_a_line_that_is_no_query_is_named(self) -> None:
        with pytest.raises(ValueError, match="not a query: 'mail A'"):
            dns.parse(batch(text=["10.0.1.2 mail.net.example A NOERROR", "mail A"]))


class TestLogs:
    def test_p9_a_line_becomes_its_template_and_a_class(self) -> None:
        lines = [
            "INFO request 7 served in 12 ms",
            "INFO request 7 served in 950 ms",
            "WARN queue of node 3 holds 999 events",
            "ERROR node 3 is lost and 12 shards move",
            "ERROR request 3 failed after 4 attempts",
        ]
        found = logs.make_record(logs.classify(logs.score(logs.parse(batch(text=lines)))))
        assert found["template"].to_pylist()[:2] == ["INFO request <*> served in <*> ms"] * 2
        assert columns_of(found, "score", "class") == [
            (0, "normal"),
            (1, "normal"),
            (3, "warning"),
            (5, "anomaly"),
            (4, "warning"),
        ]

    @pytest.mark.parametrize("line", ["DEBUG node 3 is there", "INFO all is well", ""])
    def test_a_line_that_is_none_is_named(self, line: str) -> None:
        with pytest.raises(ValueError, match=f"not a line of the log: '{line}'"):
            logs.parse(batch(text=[line]))


class TestUrlCount:
    def test_i7_lines_are_counted_by_url_and_half_second(self) -> None:
        lines = [
            "1 1190146243.499 http://a -",
            "2 1190146243.500 http://a -",
            "3 1190146243.999 http://a save",
            "4 1190146243.998 http://b -",
        ]
        counted = url_count.count_ticks(url_count.extract(batch(text=lines)))
        ticks = [(row[0].timestamp(), *row[1:]) for row in columns_of(counted, "time", "url", "count")]
        assert sorted(ticks) == [
            (1190146243.0, "http://a", 1),
            (1190146243.5, "http://a", 2),
            (1190146243.5, "http://b", 1),
        ]

    def test_a_line_that_is_no_request_is_named(self) -> None:
        with pytest.raises(ValueError, match="not a request line: 'GET /'"):
            url_count.extract(batch(value=["GET /"]))

    def test_i7_a_request_counts_in_each_window_that_covers_it(self) -> None:
        events = pa.table({"text": ["1 130.000 u -", "2 149.999 u -", "3 150.000 v -"]})
        assert url_count.APP.expected({"window_s": 60, "slide_s": 30}, events) == [
            (90, "u", 2),
            (120, "u", 2),
            (120, "v", 1),
            (150, "v", 1),
        ]
        assert url_count.APP.expected({"window_s": 30, "slide_s": 30}, events) == [(120, "u", 2), (150, "v", 1)]

    def test_of_earlier_counts_the_last_remains(self) -> None:
        found = pa.table({"window_s": [0, 0, 30, 0], "url": ["u", "v", "u", "u"], "count": [1, 5, 2, 3]})
        assert url_count.APP.results(found) == [(0, "u", 3), (0, "v", 5), (30, "u", 2)]
        assert url_count.APP.results(found.slice(0, 0)) == []

    def test_recorded_lines_replace_the_trace(self) -> None:
        [source] = url_count.APP.build({"lines": "requests"}).sources
        assert (source.connector.kind, source.connector.options["path"]) == ("files", "requests")


class TestContinuousQueries:
    def test_i7_only_speeding_vehicles_of_known_owners_are_logged(self, slept: list[float]) -> None:
        owners = continuous_queries.make_owners()
        known = owners["plate"][5].as_py()
        stray = next(
            plate
            for plate in map(continuous_queries.plate, range(999))
            if plate not in set(owners["plate"].to_pylist())
        )
        passed = batch(plate=[known, known, stray], speed_kmh=[121, 120, 200])
        lines = continuous_queries.log_lines(continuous_queries.query(passed, limit_kmh=120, scan_s=0.002))
        assert slept == [pytest.approx(0.004)]
        assert columns_of(lines, "id", "line") == [(0, f"{known} 121 Fay L-5")]

    def test_nobody_speeding_logs_nothing(self) -> None:
        found = continuous_queries.query(batch(plate=["AA-00"], speed_kmh=[60]), limit_kmh=120)
        assert continuous_queries.log_lines(found).num_rows == 0

    @pytest.mark.parametrize(("limit", "share"), [(120, 0.39 * 0.75), (159, 0.0), (0, 0.75), (59, 0.75)])
    def test_the_declared_share_follows_the_limit(self, limit: int, share: float) -> None:
        operator = continuous_queries.APP.build({"limit_kmh": limit}).operator("query")
        assert operator.selectivity["out"] == pytest.approx(share)

    def test_every_plate_is_registered_once_at_most(self) -> None:
        plates = continuous_queries.make_owners()["plate"].to_pylist()
        assert len(set(plates)) == len(plates) == 36_300


class TestDabs:
    def test_d6_insensitive_work_costs_the_same_for_every_value(self, slept: list[float]) -> None:
        done = dabs_insensitive.finalize(dabs_insensitive.work(batch(value=[0, 3, 8]), work_s=0.002))
        assert slept == [pytest.approx(0.006)]
        assert columns_of(done, "square", "parity") == [(0, "even"), (9, "odd"), (64, "even")]

    def test_d6_sensitive_work_costs_the_more_the_higher_the_value(self, slept: list[float]) -> None:
        for value in (0, 31, 63):
            assert dabs_sensitive.work({"id": 1, "value": value}, work_s=0.065)["square"] == value**2
        assert slept == [pytest.approx(0.002), pytest.approx(0.064), pytest.approx(0.128)]

    def test_d6_values_cost_what_is_declared_on_the_mean(self) -> None:
        assert sum(cost_s(value, 0.002) for value in range(VALUES)) / VALUES == pytest.approx(0.002)
        skewed = dabs_sensitive.APP.build({"values": "zipf", "work_ms": 2}).operator("work")
        assert skewed.execution_s == pytest.approx(0.0001 + mean_cost_s("zipf", 0.002))

    def test_d6_the_dispatcher_drops_irrelevant_topics_and_attributes(self) -> None:
        rows = batch(user=["a", "b"], age=[34, 50], code=[9, 1], topic=["health", "gossip"], opinion=["for", "for"])
        parts = dabs_complex.dispatch(rows)
        assert parts["city"].select(["code", "opinion"]).to_pylist() == [{"code": 9, "opinion": "for"}]
        assert parts["age"].select(["age", "opinion"]).to_pylist() == [{"age": 34, "opinion": "for"}]

    def test_d6_branches_describe_subgroups(self, slept: list[float]) -> None:
        located = [dabs_complex.find_city({"code": code, "opinion": "for"}, work_s=0.065) for code in (1, 9)]
        assert located == [{"city": "Brenn", "opinion": "for"}] * 2
        assert slept == [pytest.approx(0.004), pytest.approx(0.02)]
        banded = dabs_complex.add_age_band(batch(age=[16, 19, 20], opinion=["for", "for", "for"]))
        found = dabs_complex.persist(dabs_complex.group_by(banded, "age_band").to_batches()[0])
        assert sorted(columns_of(found, "kind", "subgroup", "opinion", "count")) == [
            ("age_band", "10", "for", 2),
            ("age_band", "20", "for", 1),
        ]

    def test_descriptions_of_a_subgroup_are_added_up(self) -> None:
        found = pa.table(
            {"kind": ["city"] * 3, "subgroup": ["A", "B", "A"], "opinion": ["for"] * 3, "count": [1, 2, 3]}
        )
        assert dabs_complex.APP.results(found) == [("city", "A", "for", 4), ("city", "B", "for", 2)]
