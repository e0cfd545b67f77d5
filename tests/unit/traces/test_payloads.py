from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import ConfigError
from foretide.traces import Replay, known_payloads, load_trace, payload
from foretide.traces.hashing import draw, pick
from foretide.traces.vocabulary import WORDS


@pytest.mark.parametrize("name", known_payloads())
@given(cuts=st.lists(st.integers(0, 300), max_size=5), seed=st.integers(-5, 2**40))
def test_rows_do_not_depend_on_the_chunks_they_are_made_in(name: str, cuts: list[int], seed: int) -> None:
    make = payload(name)
    bounds = [0, *sorted(cuts), 300]
    chunks = [make(np.arange(a, b), seed) for a, b in pairwise(bounds)]
    assert pa.concat_batches(chunks) == make(np.arange(300), seed)


@pytest.mark.parametrize("name", known_payloads())
def test_every_payload_keeps_its_schema_and_ids(name: str) -> None:
    batch = payload(name)(np.array([7, 3, 10**15]), seed=1)
    assert batch.schema == payload(name).schema
    assert batch["id"].to_pylist() == [7, 3, 10**15]
    assert batch.schema.field("id").type == pa.int64()
    batch.validate(full=True)


@pytest.mark.parametrize("name", sorted(set(known_payloads()) - {"ids"}))
def test_seeds_give_different_streams(name: str) -> None:
    one, two = (payload(name)(np.arange(100), seed)["text"].to_pylist() for seed in (1, 2))
    assert sum(a == b for a, b in zip(one, two, strict=True)) < 10


def test_tweets_have_eight_to_fourteen_words() -> None:
    counts = Counter(len(text.split()) for text in payload("tweets")(np.arange(5000), 3)["text"].to_pylist())
    assert set(counts) == set(range(8, 15))


def test_keys_follow_zipfs_law() -> None:
    counts = Counter(payload("words")(np.arange(200_000), 3)["key"].to_pylist())
    share = 1 / sum(1 / rank for rank in range(1, len(WORDS) + 1))
    for rank in (1, 2, 4, 8):
        assert counts[WORDS[rank - 1]] / 200_000 == pytest.approx(share / rank, rel=0.05)


def test_the_vocabulary_names_no_word_twice() -> None:
    assert len(set(WORDS)) == len(WORDS) > 250


def test_lines_look_like_what_they_stand_for() -> None:
    ids = np.arange(1000)
    for line in payload("dns")(ids, 1)["text"].to_pylist():
        address, name, kind, code = line.split(" ")
        assert address.startswith("10.0.") and name.endswith(".example")
        assert kind in {"A", "AAAA", "MX", "TXT", "PTR"} and code in {"NOERROR", "NXDOMAIN"}
    for line in payload("logs")(ids, 1)["text"].to_pylist():
        address, method, path, code, size = line.split(" ")
        assert method in {"GET", "POST"} and path.startswith("/") and code.isdigit() and size.isdigit()


def test_an_unknown_payload_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="expected one of dns, ids, logs, tweets, words, got tweet"):
        payload("tweet")


def test_the_generator_is_splitmix64() -> None:
    # First output of SplitMix64 from state 0, as published with the reference implementation. Seed 0 has key 0.
    assert int(draw(np.array([0]), seed=0)[0]) == 0xE220A8397B1DCDAF


def test_picks_are_even() -> None:
    counts = np.bincount(pick(draw(np.arange(100_000), 5), 10), minlength=10)
    assert counts.min() > 9500 and counts.max() < 10_500


class TestReplay:
    replay = Replay(load_trace("pasps_dns").scaled(0.05), payload("words"), seed=4, speed=20.0)

    def test_the_same_range_is_the_same_rows_in_any_chunks(self) -> None:
        whole = pa.Table.from_batches(self.replay.events(100, 5000, started_us=10**15))
        parts = [*self.replay.events(100, 777, 10**15, max_rows=50), *self.replay.events(777, 5000, 10**15)]
        assert pa.Table.from_batches(parts).combine_chunks() == whole.combine_chunks()
        assert whole.schema == self.replay.schema

    def test_event_time_is_when_the_event_became_due(self) -> None:
        started = 10**15
        due = self.replay.due_us(np.arange(2000), started)
        assert (np.diff(due) >= 0).all()
        for n in (0, 1, 999, 1999):
            assert self.replay.due_by(started, int(due[n])) >= n + 1
            assert self.replay.due_by(started, int(due[n]) - 1) <= n

    def test_nothing_is_due_before_the_start_and_everything_after_the_end(self) -> None:
        assert self.replay.due_by(started_us=10**15, now_us=0) == 0
        assert self.replay.due_by(started_us=0, now_us=10**18) == self.replay.total_events

    def test_an_impossible_speed_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"trace\.speed"):
            Replay(self.replay.trace, payload("ids"), speed=0)
