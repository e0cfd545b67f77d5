from __future__ import annotations

import numpy as np
import pytest

from foretide.errors import ConfigError, ForecastError
from foretide.forecast.deep import MinMax, Trained, TrainingSettings, Windows, cut_windows, split_windows

for module in ("jax", "equinox", "optax"):
    pytest.importorskip(module, reason="needs the extra deep")

from foretide.forecast.deep.training import Progress, train_windows  # noqa: E402

pytestmark = pytest.mark.slow  # networks are trained and compiled

SMALL = TrainingSettings(cell="gru", hidden=8, frame=2, epochs=12, seeds=2, batch=32)


def sine() -> tuple[Windows, Windows]:
    wave = 300 + 100 * np.sin(np.arange(500) / 4)
    return split_windows(cut_windows(wave, window=16, steps=4), boundary=400)


def trained_on_sine(settings: TrainingSettings = SMALL, seen: list[Progress] | None = None) -> Trained:
    train, later = sine()
    return train_windows(
        train.inputs,
        train.targets,
        (later.inputs, later.targets),
        settings,
        progress=None if seen is None else seen.append,
    )


def test_b1_training_learns_a_sine() -> None:
    seen: list[Progress] = []
    trained = trained_on_sine(seen=seen)
    first_seed = [progress for progress in seen if progress.seed == 1]
    assert first_seed[-1].loss < first_seed[0].loss / 10
    _, later = sine()
    error = np.sqrt(np.square(trained.predict_many(later.inputs) - later.targets).mean())
    assert error < 0.05 * 200  # last value: about .7 of the amplitude
    # What it says of itself is that error, in units of the range.
    assert trained.validation_loss == pytest.approx(
        (error / (trained.scaling.high - trained.scaling.low)) ** 2, rel=1e-3
    )


def test_the_best_seed_and_epoch_are_kept_and_told() -> None:
    seen: list[Progress] = []
    trained = trained_on_sine(seen=seen)
    best = min(seen, key=lambda progress: progress.validation_loss)
    assert {progress.seed for progress in seen} == {1, 2}
    assert (trained.seed, trained.epochs) == (best.seed, best.epoch)
    assert trained.validation_loss == best.validation_loss


def test_training_is_deterministic_under_its_seed() -> None:
    first, second = trained_on_sine(), trained_on_sine()
    for name, array in first.weights.arrays().items():
        assert array.tolist() == second.weights.arrays()[name].tolist()
    other = trained_on_sine(SMALL.model_copy(update={"seed": 9}))
    assert other.weights.recurrent.tolist() != first.weights.recurrent.tolist()


def test_it_stops_early_where_validation_only_gets_worse() -> None:
    train, later = sine()
    seen: list[Progress] = []
    # Upside down: what is learnt on the training part is wrong here from the start.
    wrong = 600 - later.targets
    settings = TrainingSettings(cell="gru", hidden=8, frame=2, epochs=50, seeds=1, patience=3, batch=32, anchored=True)
    trained = train_windows(train.inputs, train.targets, (later.inputs, wrong), settings, progress=seen.append)
    assert len(seen) == trained.epochs + 3 < 50


def test_the_scaling_is_that_of_the_training_part() -> None:
    train, later = sine()
    quick = SMALL.model_copy(update={"epochs": 1, "seeds": 1})
    validation = (later.inputs * 9, later.targets * 9)
    fitted = train_windows(train.inputs, train.targets, validation, quick).scaling
    assert (fitted.low, fitted.high) == (pytest.approx(200, abs=0.1), pytest.approx(400, abs=0.1))
    given = train_windows(train.inputs, train.targets, validation, quick, scaling=MinMax(0.0, 1000.0)).scaling
    assert given == MinMax(0.0, 1000.0)


def test_what_progress_raises_ends_the_training() -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    train, later = sine()
    with pytest.raises(KeyboardInterrupt):
        train_windows(train.inputs, train.targets, (later.inputs, later.targets), SMALL, progress=stop)


def test_trained_networks_come_back_from_arrays() -> None:
    _, later = sine()
    trained = trained_on_sine(SMALL.model_copy(update={"epochs": 1, "seeds": 1}))
    again = Trained.from_arrays("gru", trained.arrays())
    assert again.predict_many(later.inputs).tolist() == trained.predict_many(later.inputs).tolist()
    facts = ("scaling", "window", "steps", "validation_loss", "epochs", "seed")
    assert [getattr(again, name) for name in facts] == [getattr(trained, name) for name in facts]
    with pytest.raises(ForecastError, match="array 'facts'"):
        Trained.from_arrays("gru", trained.weights.arrays())
    with pytest.raises(ForecastError, match=r"rows of 16 values, got shape \(97, 4\)"):
        trained.predict_many(later.targets)


@pytest.mark.parametrize(
    ("train", "later", "message"),
    [
        (((0, 8), (0, 2)), ((3, 8), (3, 2)), "training windows: expected as many rows"),
        (((5, 8), (4, 2)), ((3, 8), (3, 2)), r"got shapes \(5, 8\) and \(4, 2\)"),
        (((5, 8), (5, 2)), ((3, 8), (2, 2)), "validation windows: expected as many rows"),
        (((5, 8), (5, 2)), ((3, 8), (3, 1)), "expected 8 inputs and 2 targets as in training, got 8 and 1"),
    ],
)
def test_windows_that_do_not_fit_are_refused(
    train: tuple[tuple[int, int], ...], later: tuple[tuple[int, int], ...], message: str
) -> None:
    inputs, targets = (np.zeros(shape) for shape in train)
    with pytest.raises(ForecastError, match=message):
        train_windows(inputs, targets, (np.zeros(later[0]), np.zeros(later[1])), SMALL)


def test_frames_must_fill_the_window() -> None:
    train, later = sine()
    with pytest.raises(ConfigError, match="'frame': expected a divisor of the 16 inputs, got 5"):
        train_windows(train.inputs, train.targets, (later.inputs, later.targets), SMALL.model_copy(update={"frame": 5}))
