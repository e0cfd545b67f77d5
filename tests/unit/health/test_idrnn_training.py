"""The parts of training the I-DRNN: folds, linear memory, screening, and what is believed (SPEC I4)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from foretide.health.idrnn.folds import Fold, make_folds
from foretide.health.idrnn.memory import LinearMemory, MemoryForm, Past, fit_memories, fit_memory
from foretide.health.idrnn.scaling import Floats32
from foretide.health.idrnn.screening import Screen, screen_inputs

pytestmark = pytest.mark.slow  # networks are trained and compiled


def windows_of(series: Floats32, window: int) -> tuple[Past, Floats32]:
    """Return windows of a series over steps, workers and targets, without features, and what followed."""
    view = np.lib.stride_tricks.sliding_window_view(series[:-1], window, axis=0)
    context = np.zeros((len(series) - window, series.shape[1], 1), np.float32)
    return Past(view.transpose(0, 3, 1, 2).copy(), context), series[window:]


def autoregressive(steps: int, kept: float, seed: int = 1) -> Floats32:
    draw = np.random.default_rng(seed)
    values = np.zeros((steps, 2, 3))
    for step in range(1, steps):
        values[step] = kept * values[step - 1] + draw.normal(0, 1, (2, 3))
    return values.astype(np.float32)


@pytest.mark.parametrize("lengths", [[100], [60, 90]])
def test_i4_stretches_held_back_cover_the_run_and_touch_nothing_that_is_learnt(lengths: list[int]) -> None:
    folds = make_folds(lengths, 5, 0.2, gap=4)
    assert sorted(np.concatenate([fold.held for fold in folds]).tolist()) == list(range(sum(lengths)))
    ends = np.cumsum([0, *lengths])
    for fold in folds:
        for first, last in pairwise(ends.tolist()):
            held = fold.held[(fold.held >= first) & (fold.held < last)]
            learnt = fold.learnt[(fold.learnt >= first) & (fold.learnt < last)]
            assert np.array_equal(held, np.arange(held[0], held[-1] + 1))
            assert np.abs(learnt[:, None] - held[None, :]).min() > 4


def test_i4_the_memory_finds_how_much_is_kept() -> None:
    past, ahead = windows_of(autoregressive(2000, 0.8), 3)
    memory = fit_memory(past, ahead, [MemoryForm(1e-4)] * 3)
    own = memory.weights[:, range(3), range(3)]
    np.testing.assert_allclose(own[-1], 0.8, atol=0.05)
    np.testing.assert_allclose(own[:-1], 0.0, atol=0.05)


def test_i4_a_strong_penalty_leads_to_the_mean_or_to_the_last_value() -> None:
    past, ahead = windows_of(autoregressive(200, 0.5) + 7.0, 4)
    mean = fit_memory(past, ahead, [MemoryForm(1e9)] * 3)
    last = fit_memory(past, ahead, [MemoryForm(1e9, from_last=True)] * 3)
    np.testing.assert_allclose(mean(past), np.broadcast_to(ahead.mean(axis=(0, 1)), ahead.shape), atol=1e-3)
    drift = (ahead - past.targets[:, -1]).mean(axis=(0, 1))
    np.testing.assert_allclose(last(past), past.targets[:, -1] + drift, atol=1e-3)


def test_i4_the_memory_of_one_target_may_see_the_others() -> None:
    draw = np.random.default_rng(2)
    series = draw.normal(size=(300, 2, 2)).astype(np.float32)
    series[1:, :, 1] = 0.5 * series[:-1, :, 0]
    past, ahead = windows_of(series, 3)
    memory = fit_memory(past, ahead, [MemoryForm(1e-6, crossed=True)] * 2)
    assert memory.weights[-1, 0, 1] == pytest.approx(0.5, abs=1e-3)
    np.testing.assert_allclose(memory(past)[..., 1], ahead[..., 1], atol=1e-3)


def test_i4_the_form_of_the_memory_is_chosen_where_it_was_held_back() -> None:
    # A walk at random is told best by its last value, noise by its mean.
    walk = np.cumsum(np.random.default_rng(3).normal(size=(400, 2, 1)), axis=0)
    noise = np.random.default_rng(4).normal(size=(400, 2, 1))
    series = np.concatenate((walk, noise), axis=2).astype(np.float32)
    past, ahead = windows_of(series, 4)
    memories = fit_memories(past, ahead, make_folds([len(ahead)], 4, 0.2, 4))
    assert len(memories) == 4
    for memory in memories:
        assert memory.weights[:, 0, 0].sum() == pytest.approx(1.0, abs=0.06)
        assert np.abs(memory.weights[:, 1, 1]).sum() < 0.35


def test_i4_a_memory_by_hand() -> None:
    weights = np.zeros((2, 2, 2), np.float32)
    weights[1, 0, 0], weights[0, 1, 1], weights[1, 0, 1] = 0.5, 2.0, 1.0
    seen = np.array([[[[1.0, 2.0]], [[3.0, 4.0]]]], np.float32)
    context, features = np.array([[[5.0, 9.0]]], np.float32), np.array([[0.0, 1.0], [0.0, 0.0]], np.float32)
    centre, spread = np.array([3.0, 0.0], np.float32), np.array([4.0, np.inf], np.float32)
    memory = LinearMemory(weights, features, centre, spread, np.array([0.25, 0.0], np.float32))
    # First: half its last value. Second: twice the one before the last, the first's last, and (5 - 3) / 4 of a feature.
    assert memory(Past(seen, context)).tolist() == [[[1.75, 7.5]]]


def test_i4_the_memory_picks_the_features_that_go_with_what_it_misses() -> None:
    draw = np.random.default_rng(8)
    series = draw.normal(size=(300, 2, 1)).astype(np.float32)
    context = draw.normal(2.0, 3.0, size=(297, 2, 20)).astype(np.float32)
    context[:, :, 5] = context[:, :, 7]  # the same once more
    past, ahead = windows_of(series, 3)
    told = (ahead + context[:, :, [7]] - 0.5 * context[:, :, [12]]).astype(np.float32)
    memory = fit_memory(Past(past.targets, context), told, [MemoryForm(1.0, features=2, feature_shrinkage=1e-6)])
    assert set(np.flatnonzero(memory.features[:, 0])) in ({5, 12}, {7, 12})
    chosen = fit_memories(Past(past.targets, context), told, make_folds([297], 3, 0.3, 3))
    error = np.square(chosen[0](Past(past.targets, context)) - told).mean()
    assert error < 1.2 * np.square(ahead).mean()


def test_i4_inputs_are_screened_by_what_the_memory_misses() -> None:
    draw = np.random.default_rng(5)
    latest = draw.normal(3.0, 2.0, (200, 30)).astype(np.float32)
    latest[:, 4] = 7.0  # never changes, tells nothing
    missed = draw.normal(size=(200, 2, 3)).astype(np.float32)
    missed[:, :, 1] += latest[:, [11]]
    missed[:, :, 2] -= 2 * latest[:, [20]]
    screen = screen_inputs(latest, missed, 2)
    assert screen.places.tolist() == [11, 20]
    seen = screen(latest)
    np.testing.assert_allclose(seen.mean(axis=0), 0.0, atol=1e-2)
    np.testing.assert_allclose(seen.std(axis=0), 1.0, atol=2e-2)
    assert np.abs(screen(latest * 1e6)).max() == 4.0
    assert np.isfinite(screen_inputs(latest, missed, 500)(latest)).all()


def test_i4_a_screen_survives_being_plain_arrays() -> None:
    screen = Screen(np.array([1, 3]), np.array([0.5, 1.0], np.float32), np.array([2.0, 4.0], np.float32))
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(Screen.of(screen.arrays())(values), screen(values))
    np.testing.assert_array_equal(screen(values)[0], [0.25, 0.5])
    everything = Screen(np.arange(4), np.zeros(4, np.float32), np.ones(4, np.float32))
    np.testing.assert_array_equal(everything(values / 8), values / 8)


def test_i4_networks_that_only_learn_noise_are_not_believed() -> None:
    from foretide.health.idrnn.committee import Lesson, train_committee
    from foretide.health.idrnn.settings import IdrnnSettings

    draw = np.random.default_rng(6)
    settings = IdrnnSettings(interference_units=4, worker_units=4, epochs=200, patience=200, hidden_inputs=0.0, seeds=3)
    folds = make_folds([90], 3, 0.3, 2)

    def lessons(missed: Floats32) -> list[Lesson]:
        return [Lesson(inputs, np.zeros((90, 3, 2, 1), np.float32), missed, fold) for fold in folds]

    inputs = draw.normal(size=(90, 3, 5)).astype(np.float32)
    noise = draw.normal(size=(90, 2, 1)).astype(np.float32)
    told = np.repeat(np.tanh(2 * inputs[:, -1, :1])[:, None], 2, axis=1)
    in_vain, useful = train_committee(lessons(noise), settings), train_committee(lessons(told), settings)
    held = np.concatenate([noise[fold.held] for fold in folds])
    assert 0.9 * np.square(held).mean() < in_vain.error <= 1.001 * np.square(held).mean()
    assert (useful.factors > 0.6).all()
    assert useful.error < 0.7 * np.square(told).mean()


def test_i4_too_many_windows_held_back_still_leave_some_to_learn_from() -> None:
    [fold] = make_folds([20], 1, 0.16, 2)
    assert isinstance(fold, Fold)
    assert fold.learnt.size >= 12
