"""The expensive experts of `auto`: what they learnt, and what each predicted at every recent origin."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from foretide.forecast.base import Forecaster, Series
from foretide.forecast.models.seasonal import SeasonalRegression
from foretide.forecast.training.archive import Arrays
from foretide.records import Floats

__all__ = ["KEPT", "ExpertPanel"]

#: Origins of which forecasts are kept, which is as far back as experts are compared.
KEPT = 512
SEASONAL = "seasonal-ridge"


class ExpertPanel:
    """Experts that are not refitted at every step, with a record of their forecasts.

    A row of the record is what each predicted after one value, up to `ahead` steps ahead, NaN where it predicted
    nothing. An expert is judged by these rows alone, so that nothing it learnt from counts in its favour.

    Parameters
    ----------
    ahead : int
        Steps ahead that are kept.
    """

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.seasonal: SeasonalRegression | None = None
        self.members: dict[str, Forecaster] = {}
        self.names: tuple[str, ...] = ()
        self._paths: Floats = np.empty((0, 0, ahead))
        self._end = 0

    def follow(self, new: Series, known: Floats, seen: int) -> None:
        """Note what every expert predicts after each value of `new`; `known` holds all values up to number `seen`."""
        count = new.values.size
        rows = np.full((count, len(self.names), self.ahead), np.nan)
        for name, member in self.members.items():
            rows[:, self.names.index(name)] = self._walk(member, new)
        if self.seasonal is not None and count:
            rows[:, self.names.index(SEASONAL)] = self._seasonal_rows(known, seen, count)
        self._paths = np.concatenate((self._paths, rows))[-KEPT:]
        self._end = seen

    def learn_season(self, known: Floats, seen: int) -> None:
        """Learn from all that is known; without a record, first from all but the end, which begins the record."""
        held = min(KEPT, known.size // 4)
        if SEASONAL not in self.names:
            earlier = SeasonalRegression.learn(known[:-held], seen - known.size, self.ahead)
            if earlier is None:
                return
            self.seasonal = earlier
            self._add_rows(SEASONAL, self._seasonal_rows(known, seen, held), seen)
        self.take_season(SeasonalRegression.learn(known, seen - known.size, self.ahead))

    def take_season(self, learnt: SeasonalRegression | None) -> None:
        """Use a regression that was learnt elsewhere."""
        if learnt is not None:
            self.seasonal = learnt
            self._add_name(SEASONAL)

    def admit(self, name: str, member: Forecaster, missed: Series, seen: int) -> None:
        """Take in a forecaster after it has gone through the values that it `missed`, which begin its record.

        One of the same name is replaced; what was predicted under that name before stays.
        """
        rows = self._walk(member, missed)
        known = name in self.names
        self.members[name] = member
        self._add_name(name)
        if not known:
            self._add_rows(name, rows, seen)

    def record(self, end: int, size: int) -> Floats:
        """Return the last `size` rows up to and with value number `end`, NaN if there are none."""
        found = np.full((size, len(self.names), self.ahead), np.nan)
        before = self._paths[: max(len(self._paths) - (self._end - end), 0)][-size:]
        if len(before):
            found[-len(before) :] = before
        return found

    def _walk(self, member: Forecaster, new: Series) -> Floats:
        """Return what a forecaster predicts after each of the next values."""
        rows = np.full((new.values.size, self.ahead), np.nan)
        skipped = max(new.values.size - KEPT, 0)
        member.update(new.part(0, skipped))
        for number in range(skipped, new.values.size):
            member.update(new.part(number, number + 1))
            rows[number] = member.predict(self.ahead, levels=()).mean
        return rows

    def _seasonal_rows(self, known: Floats, seen: int, count: int) -> Floats:
        if self.seasonal is None:
            return np.full((count, self.ahead), np.nan)
        count_known = min(count, known.size)
        origins = np.arange(known.size - count_known, known.size)
        rows = np.full((count, self.ahead), np.nan)
        rows[count - count_known :] = self.seasonal.paths(known, seen - known.size, origins)
        return rows

    def _add_name(self, name: str) -> None:
        if name not in self.names:
            self.names = (*self.names, name)
            self._paths = np.pad(self._paths, ((0, 0), (0, 1), (0, 0)), constant_values=np.nan)

    def _add_rows(self, name: str, rows: Floats, seen: int) -> None:
        """Write the rows of one expert that end with value number `seen`."""
        self._add_name(name)
        rows = rows[-KEPT:]
        missing = len(rows) - len(self._paths)
        if missing > 0:
            self._paths = np.pad(self._paths, ((missing, 0), (0, 0), (0, 0)), constant_values=np.nan)
        if len(rows):
            self._paths[-len(rows) :, self.names.index(name)] = rows
        self._end = seen

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays, for `of`."""
        found: dict[str, npt.NDArray[Any]] = {
            "names": np.array(self.names, dtype=np.str_),
            "paths": self._paths,
            "end": np.array([self._end]),
        }
        if self.seasonal is not None:
            found |= {f"seasonal.{name}": array for name, array in self.seasonal.arrays().items()}
        with tempfile.TemporaryDirectory() as folder:
            for name, member in self.members.items():
                saved = member.save(Path(folder) / "member").read_bytes()
                found[f"member.{name}"] = np.frombuffer(saved, dtype=np.uint8)
        return found

    @classmethod
    def of(cls, arrays: Arrays) -> Self:
        """Return the panel that `arrays` were taken from."""
        from foretide.forecast.registry import load_forecaster  # the registry knows `auto`, which knows this module

        panel = cls(arrays["paths"].shape[2])
        panel.names = tuple(arrays["names"].tolist())
        panel._paths, panel._end = arrays["paths"].astype(np.float64), int(arrays["end"][0])
        seasonal = _under("seasonal.", arrays)
        panel.seasonal = SeasonalRegression.of(seasonal) if seasonal else None
        with tempfile.TemporaryDirectory() as folder:
            for name, saved in _under("member.", arrays).items():
                path = Path(folder) / "member"
                path.write_bytes(saved.tobytes())
                panel.members[name] = load_forecaster(path)
        return panel


def _under(prefix: str, arrays: Arrays) -> Mapping[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
