"""Making the weights: the series that are drawn, and training that goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from foretide.forecast.zero.learning import fit  # noqa: E402
from foretide.forecast.zero.learning.loss import filled  # noqa: E402
from foretide.forecast.zero.learning.made_series import LENGTH, make_gaps, make_series  # noqa: E402
from foretide.forecast.zero.shape import Shape  # noqa: E402

pytestmark = pytest.mark.slow


def test_series_are_rates_of_many_kinds_and_the_same_from_the_same_key() -> None:
    drawn = np.asarray(make_series(jax.random.key(3), 256))
    assert drawn.shape == (256, LENGTH) and np.isfinite(drawn).all() and (drawn >= 0).all()
    assert np.array_equal(drawn, np.asarray(make_series(jax.random.key(3), 256)))
    spread = drawn.std(axis=1) / np.maximum(drawn.mean(axis=1), 1e-9)
    assert spread.min() < 0.1 and spread.max() > 1.0


def test_gaps_are_rare_never_first_and_filled_with_the_value_before() -> None:
    gaps = np.asarray(make_gaps(jax.random.key(4), 512))
    assert 0.002 < gaps.mean() < 0.2 and not gaps[:, 0].any()
    values = jax.numpy.asarray([[1.0, 2.0, 3.0, 4.0]])
    assert filled(values, jax.numpy.asarray([[0.0, 1.0, 1.0, 0.0]])).tolist() == [[1.0, 1.0, 1.0, 4.0]]


def test_training_that_is_stopped_goes_on_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "_CALL", 2)

    def learner() -> fit.Learner:
        return fit.Learner(Shape(32, 1), steps=4, batch=2)

    whole, first = learner(), learner()
    losses = [whole.advance(), whole.advance()]
    assert first.advance() == losses[0]
    first.save(tmp_path / "state.npz")
    second = learner()
    second.resume(tmp_path / "state.npz")
    assert second.advance() == pytest.approx(losses[1], rel=1e-5) and second.done == 4
