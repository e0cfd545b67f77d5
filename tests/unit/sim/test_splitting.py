from __future__ import annotations

import numpy as np
import pytest

from foretide.sim.stations.splitting import Splitter


def tuples(count: int) -> np.ndarray:
    """Return tuples that arrive at 1, 2, 3 ... and whose events arrived then too."""
    return np.tile(np.arange(1.0, count + 1.0), (2, 1))


def test_p5_shares_of_figure_6_are_exact() -> None:
    """Shares .7 and .3 of Fig. 6 send every tuple of ten to exactly one of two outputs."""
    parts, ended = Splitter([0.7, 0.3], [0, 1])(tuples(10))
    assert [part.shape[1] for part in parts] == [7, 3]
    assert ended == 0
    assert sorted(np.concatenate([part[0] for part in parts]).tolist()) == list(range(1, 11))
    # Credits by hand: .7 against .3; .4 against .6, which wins; 1.1, .8, .5 and .2 (against .8, which wins) ...
    assert parts[1][0].tolist() == [2.0, 6.0, 9.0]


def test_a_filter_ends_events() -> None:
    split = Splitter([0.4], [0])
    parts, ended = split(tuples(5))
    assert parts[0].shape[1] == 2
    assert ended == 3
    # Shares are kept from call to call.
    assert sum(split(tuples(1))[0][0].shape[1] for _ in range(995)) == 398


def test_copies_stand_for_an_event_once() -> None:
    parts, ended = Splitter([2.5], [0])(tuples(4))
    assert parts[0].shape[1] == 10
    assert ended == 0
    assert np.count_nonzero(~np.signbit(parts[0][1])) == 4
    assert sorted(set(np.abs(parts[0][1]))) == [1.0, 2.0, 3.0, 4.0]


def test_every_edge_of_an_output_gets_all_of_it() -> None:
    parts, _ = Splitter([1.0], [0, 0, 0])(tuples(3))
    assert [part[0].tolist() for part in parts] == [[1.0, 2.0, 3.0]] * 3
    assert [int(np.signbit(part[1]).sum()) for part in parts] == [0, 3, 3]


def test_an_event_at_zero_can_be_told_from_its_copy() -> None:
    parts, _ = Splitter([1.0], [0, 0])(np.zeros((2, 1)))
    assert [bool(np.signbit(part[1, 0])) for part in parts] == [False, True]


@pytest.mark.parametrize("shares", [(0.7, 0.3), (0.25, 0.5, 0.1), (0.9, 0.9, 0.9), (1.7, 0.0, 2.0), (0.0,)])
@pytest.mark.parametrize("random", [False, True])
def test_shares_come_out_in_the_long_run(shares: tuple[float, ...], random: bool) -> None:
    rng = np.random.default_rng(3) if random else None
    split = Splitter(shares, range(len(shares)), rng)
    counts = np.zeros(len(shares))
    for _ in range(10):
        parts, _ = split(tuples(1000))
        counts += [part.shape[1] for part in parts]
        assert all(part.shape[1] <= np.ceil(share) * 1000 for part, share in zip(parts, shares, strict=True))
    tolerance = 0.02 if random else 2e-4
    assert counts / 10_000 == pytest.approx(shares, abs=tolerance)
    whole = [count for count, share in zip(counts, shares, strict=True) if share == int(share)]
    assert whole == [10_000 * share for share in shares if share == int(share)]
