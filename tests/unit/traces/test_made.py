from __future__ import annotations

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.traces import load_trace, made_trace, made_traces


@pytest.mark.parametrize("name", made_traces())
def test_a_made_up_input_is_the_same_whenever_it_is_named(name: str) -> None:
    trace = load_trace(name)
    assert trace.name == name
    assert (trace.bin_s, trace.duration_s, trace.peak_rate) == (5.0, 1200.0, 20_000.0)
    assert trace.rates.min() > 0
    assert np.array_equal(trace.rates, made_trace(f"{name}:0").rates)


@pytest.mark.parametrize("name", made_traces())
def test_another_seed_gives_another_input_of_the_same_kind(name: str) -> None:
    assert not np.array_equal(made_trace(f"{name}:1").rates, made_trace(f"{name}:2").rates)


def test_there_are_ten_kinds_and_five_load_patterns_none_like_another() -> None:
    rates = np.array([made_trace(name).rates for name in made_traces()])
    assert [sum(name.startswith(family) for name in made_traces()) for family in ("made:", "delft:")] == [10, 5]
    assert len(np.unique(rates, axis=0)) == 15


def test_shapes_are_what_their_names_say() -> None:
    assert len(set(made_trace("made:steps").rates.tolist())) == 8
    assert set(made_trace("made:on-off:5").rates.tolist()) == {2_000.0, 20_000.0}
    ramp = np.sign(np.diff(made_trace("made:ramp").rates))
    assert np.count_nonzero(np.diff(ramp)) == 1  # up, then down
    gamma = made_trace("made:gamma").rates
    assert gamma.std() / gamma.mean() == pytest.approx(0.5, abs=0.1)
    spikes = made_trace("made:spikes").rates
    assert np.mean(spikes == spikes.min()) > 0.8


def test_load_patterns_of_delft_are_what_their_names_say() -> None:
    cosine = made_trace("delft:cosine:1").rates
    tops = cosine.reshape(4, 60)[:, :5].mean(), cosine.reshape(4, 60)[:, 28:33].mean()
    assert tops[0] / tops[1] == pytest.approx(250 / 50, rel=0.1)
    assert np.abs(np.diff(made_trace("delft:spiking:1").rates)).max() > 2 * np.abs(np.diff(cosine)).max()
    steps = np.diff(made_trace("delft:random:1").rates)
    assert np.abs(steps).max() < 2.1 * np.abs(steps).mean()  # even steps: the largest is twice the mean
    for name, sign in (("delft:increase", 1), ("delft:decrease", -1)):
        ends = [made_trace(f"{name}:{seed}").rates[[0, -1]] for seed in range(10)]
        assert np.mean([np.sign(last - first) == sign for first, last in ends]) >= 0.9


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("made:step", "expected a shape among gaussian, steps, .*; did you mean 'made:steps'"),
        ("made:", "expected a shape among"),
        ("delft:cosin", "did you mean 'delft:cosine'"),
        ("made:xyzzy", "`foretide traces` lists them"),
        ("made:steps:one", "expected a whole number as seed, as in 'made:steps:3', got 'one'"),
        ("made:steps:-1", "got '-1'"),
        ("made:steps:1:2", "got '1:2'"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_trace(name)
