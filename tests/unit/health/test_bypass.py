"""The state machine of bypasses (SPEC I6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.health.bypass import Bypass, BypassSettings
from foretide.health.policies import Verdict

WORKERS = ("1", "2", "3")


def verdict(worker: str, suspicious: bool = True, score: float = 9.0, machine: str = "host") -> Verdict:
    return Verdict(worker, machine, suspicious, score, f"{worker} is slow")


def test_i6_a_worker_is_bypassed_after_so_many_suspicious_looks_in_a_row() -> None:
    bypass = Bypass(BypassSettings(confirm=3))
    assert bypass.look(0.0, WORKERS, [verdict("2")]).bypassed == ()
    assert bypass.look(1.0, WORKERS, [verdict("2")]).bypassed == ()
    step = bypass.look(2.0, WORKERS, [verdict("2")])
    assert step.bypassed == ("2",)
    assert step.reasons == {"2": "2 is slow"}
    assert bypass.bypassed == ("2",)


def test_one_good_look_starts_the_count_anew_and_a_missing_one_keeps_it() -> None:
    bypass = Bypass(BypassSettings(confirm=2))
    bypass.look(0.0, WORKERS, [verdict("2")])
    bypass.look(1.0, WORKERS, [])
    assert bypass.state("2").suspicions == 1
    bypass.look(2.0, WORKERS, [verdict("2", suspicious=False)])
    assert bypass.look(3.0, WORKERS, [verdict("2")]).bypassed == ()


def test_i6_cool_down_readmission_probation_and_health() -> None:
    bypass = Bypass(BypassSettings(confirm=1, cool_down_s=60, probation_s=30))
    bypass.look(0.0, WORKERS, [verdict("2")])
    assert bypass.look(59.9, WORKERS, []).readmitted == ()
    assert bypass.look(60.0, WORKERS, []).readmitted == ("2",)
    assert bypass.state("2").standing == "probation"
    bypass.look(90.0, WORKERS, [verdict("2", suspicious=False)])
    assert bypass.state("2").standing == "healthy"


def test_i6_a_failed_probation_doubles_the_cool_down_up_to_the_longest() -> None:
    settings = BypassSettings(confirm=3, cool_down_s=60, probation_s=30, back_off=2, longest_s=200)
    bypass = Bypass(settings)
    for at_s in (0.0, 1.0, 2.0):
        bypass.look(at_s, WORKERS, [verdict("2")])
    waits = []
    for _ in range(3):
        back_s = bypass.state("2").until_s
        bypass.look(back_s, WORKERS, [])
        # One suspicious look is enough on probation.
        assert bypass.look(back_s + 1, WORKERS, [verdict("2")]).bypassed == ("2",)
        waits.append(bypass.state("2").cool_down_s)
    assert waits == [120, 200, 200]


def test_i6_the_last_worker_is_never_bypassed() -> None:
    bypass = Bypass(BypassSettings(confirm=1, at_most=0.9))
    step = bypass.look(0.0, ["1"], [verdict("1")])
    assert (step.bypassed, step.spared) == ((), ("1",))
    step = bypass.look(1.0, ["1", "2"], [verdict("1", score=3), verdict("2", score=8)])
    assert (step.bypassed, step.spared) == (("2",), ("1",))


def test_no_more_than_a_share_is_bypassed_the_worst_first() -> None:
    bypass = Bypass(BypassSettings(confirm=1, at_most=0.5))
    workers = ["1", "2", "3", "4"]
    step = bypass.look(0.0, workers, [verdict(worker, score=float(worker)) for worker in workers])
    assert step.bypassed == ("4", "3")
    assert step.spared == ("2", "1")


def test_i6_the_whole_machine_is_bypassed_where_that_is_the_scope() -> None:
    bypass = Bypass(BypassSettings(confirm=1, scope="machine"))
    verdicts = [
        verdict("1", machine="a"),
        verdict("2", suspicious=False, machine="a"),
        verdict("3", suspicious=False, machine="b"),
        verdict("4", suspicious=False, machine="b"),
    ]
    step = bypass.look(0.0, ["1", "2", "3", "4"], verdicts)
    assert step.bypassed == ("1", "2")
    assert bypass.state("2").reason.startswith("2 is slow")


def test_a_machine_that_cannot_be_spared_as_a_whole_stays() -> None:
    bypass = Bypass(BypassSettings(confirm=1, scope="machine", at_most=0.5))
    step = bypass.look(0.0, ["1", "2"], [verdict("1"), verdict("2")])
    assert (step.bypassed, step.spared) == ((), ("1", "2"))


def test_a_worker_that_is_gone_is_forgotten() -> None:
    bypass = Bypass(BypassSettings(confirm=1))
    bypass.look(0.0, WORKERS, [verdict("2")])
    bypass.look(1.0, ("1", "3"), [])
    assert bypass.bypassed == ()


def test_a_clock_that_was_set_back_does_not_keep_a_worker_out() -> None:
    bypass = Bypass(BypassSettings(confirm=1, cool_down_s=60))
    bypass.look(10_000.0, WORKERS, [verdict("2")])
    assert bypass.look(9_000.0, WORKERS, []).readmitted == ("2",)


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("12345"), st.booleans(), st.floats(0, 100)), max_size=5), max_size=30),
    st.integers(1, 5),
    st.floats(0.1, 0.9),
)
def test_whatever_a_policy_says_some_worker_is_left(
    looks: list[list[tuple[str, bool, float]]], workers: int, at_most: float
) -> None:
    bypass = Bypass(BypassSettings(confirm=1, cool_down_s=3, probation_s=2, at_most=at_most))
    present = [str(number) for number in range(1, workers + 1)]
    for at_s, verdicts in enumerate(looks):
        bypass.look(float(at_s), present, [verdict(*each) for each in verdicts])
        assert len(bypass.bypassed) <= max(0, workers - 1)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="at_most"):
        BypassSettings(at_most=1.0)
