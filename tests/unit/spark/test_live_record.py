"""What a live stage keeps in the run's directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretide.depot import open_depot
from foretide.errors import ConfigError
from foretide.kafka import Cluster, KafkaError
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.spark.live.record import LiveRecord, StrandCut, check_driver, claim_driver, read_reached, write_reached
from foretide.spark.live.topics import check_remembered


def test_the_first_driver_decides_into_how_many_strands_a_topic_is_cut(tmp_path: Path) -> None:
    depot = open_depot(tmp_path / "stages")
    cuts = {"in": StrandCut(3, {"to": {"0": 5}})}
    assert LiveRecord.claim(depot, lambda: cuts) == (LiveRecord(cuts), False)
    later = {"in": StrandCut(8, {"to": {}})}
    assert LiveRecord.claim(depot, lambda: later) == (LiveRecord(cuts), True)
    assert [cuts["in"].of("in", partition) for partition in (0, 1, 2, 3)] == ["in/0", "in/1", "in/2", "in/0"]
    assert cuts["in"].names("in") == ["in/0", "in/1", "in/2"]


def test_a_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "strands.json").write_text("{oops")
    with pytest.raises(ConfigError, match=r"strands\.json.*expected the strands of a live stage"):
        LiveRecord.claim(open_depot(tmp_path), dict)


def test_the_last_driver_that_has_begun_is_the_driver(tmp_path: Path) -> None:
    depot = open_depot(tmp_path / "stages")
    check_driver(depot, "one", "in")
    claim_driver(depot, "one")
    check_driver(depot, "one", "in")
    claim_driver(depot, "two")
    check_driver(depot, "two", "in")
    with pytest.raises(KafkaError, match=r"stage 'in': expected to be the only driver .* has taken"):
        check_driver(depot, "one", "in")


def test_how_far_a_stage_has_come_is_written_down(tmp_path: Path) -> None:
    depot = open_depot(tmp_path)
    assert read_reached(depot) == {}
    write_reached(depot, {"in": {0: 12}})
    assert read_reached(depot) == {"in": {"0": 12}}


def test_offsets_that_the_broker_has_forgotten_are_an_error_and_not_a_new_beginning() -> None:
    plan = KafkaSourcePlan(Cluster("here:1", "source 'in'"), "orders")
    starts = {0: 0, 1: 7}
    check_remembered(plan, starts, {0: 12}, {"0": 12, "1": 7}, "they were removed")
    with pytest.raises(KafkaError, match=r"source 'in'.*partitions \[1\].*starting=\{\"1\": 9\}"):
        check_remembered(plan, starts, {0: 12}, {"0": 12, "1": 9}, "they were removed")
