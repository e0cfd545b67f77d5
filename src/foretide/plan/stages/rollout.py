"""Batches rolled forward: the latencies that a stage would have with other slots, over everything that may arrive."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from foretide._numba import njit
from foretide.plan.stages.batch_model import StageFigures
from foretide.records import Floats

__all__ = ["NOISE_WEIGHTS", "StageInput", "StageLatency", "Way", "roll_stage"]

# The most batches of one look ahead; more would be of so short batches that the first ones tell all.
_BATCHES = 400
# The part of the target that work may always take, however expensive a batch is, as admission has it.
_LEAST_WORK = 0.5
# The levels of a duration's noise that are tried, in deviations, and how likely they are: a normal curve's three
# points of Gauss and Hermite.
_NOISE = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
NOISE_WEIGHTS = np.array([1 / 6, 2 / 3, 1 / 6])
_LEAST_RATE = 1e-9

#: How slots are hired: seconds of work for each slot of a batch, and the fewest and the most; the same if fixed.
Way: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class StageInput:
    """What comes to a stage, by scenario.

    Parameters
    ----------
    waiting : float
        Events that wait before it now.
    last : float
        Events per second in the last interval.
    before, during : array over scenarios
        Events per second until the plan is at work, and while it is.
    event_s : float
        The work of one event in the stage.
    first_s : float
        Seconds until its next batch begins.
    """

    waiting: float
    last: float
    before: Floats
    during: Floats
    event_s: float
    first_s: float = 0.0


@dataclass(frozen=True, eq=False)
class StageLatency:
    """The latencies of the events that a plan is for, over ways to hire slots (rows) and scenarios (columns).

    Every scenario of the input comes with three levels of noise in the durations of batches, next to each other.

    Parameters
    ----------
    mean_s, square_s2, quantile_s : array over ways and scenarios
        The mean, the mean square, and the quantile if one was asked for.
    left : array over ways and scenarios
        Events that wait at the end, beyond those that the next batch takes as a matter of course.
    slots : array over ways and scenarios
        The slots in force, mean over time.
    """

    mean_s: Floats
    square_s2: Floats
    quantile_s: Floats
    left: Floats
    slots: Floats

    @cached_property
    def variance_s2(self) -> Floats:
        """The variance of the latencies."""
        variance: Floats = np.maximum(self.square_s2 - self.mean_s**2, 0.0)
        return variance


def roll_stage(
    figures: StageFigures,
    coming: StageInput,
    ways: Floats,
    *,
    present: Way,
    horizon_s: float,
    quantile: float | None,
    rhythm: tuple[float, float, float],
) -> StageLatency:
    """Return the latencies of a stage for each of the `ways` to hire slots.

    Batch follows batch: each takes what waits when it begins, as far as admission lets it, in as many slots as its work
    is worth, and all its events leave when it ends. Batches that begin before the plan is at work hire in the `present`
    way.

    Parameters
    ----------
    figures : StageFigures
        How long batches take.
    coming : StageInput
        What comes.
    ways : array of shape (ways, 3)
        Seconds of work for each slot of a batch, and the fewest and the most slots; the same for fixed slots.
    present : tuple of float
        The way of now.
    horizon_s : float
        Seconds for which the plan is to hold.
    quantile : float, optional
        Which quantile to return; it takes ten times as long as all the rest.
    rhythm : tuple of float
        Seconds between the starts of two batches at least; seconds of work admitted; cores, infinite if unlimited.
    """
    shape = (len(ways), coming.during.size * _NOISE.size)
    found = tuple(np.full(shape, np.nan) for _ in range(5))
    level = np.nan if quantile is None else quantile
    parts = np.array([figures.start_s, figures.slot_s, figures.skew, figures.gap_s, figures.noise_s, figures.batch_s])
    _roll(
        parts,
        figures.doubt,
        np.array([coming.waiting, coming.last, coming.event_s, *present, figures.activation_s, horizon_s, level]),
        coming.first_s,
        np.array(rhythm),
        coming.before,
        coming.during,
        ways,
        *found,
    )
    return StageLatency(*found)


@njit
def _roll(
    parts: Floats,
    doubt: Floats,
    state: Floats,
    first_s: float,
    rhythm: Floats,
    before: Floats,
    during: Floats,
    ways: Floats,
    mean_s: Floats,
    square_s2: Floats,
    quantile_s: Floats,
    left: Floats,
    slots: Floats,
) -> None:
    low, high, count = np.empty(_BATCHES), np.empty(_BATCHES), np.empty(_BATCHES)
    known, noted = (parts, doubt, state, rhythm), (low, high, count)
    activation_s, ends_s = state[6], state[6] + state[7]
    for case in range(during.size):
        for level in range(_NOISE.size):
            column, rates, noise = case * _NOISE.size + level, (before[case], during[case]), _NOISE[level]
            # Until the plan is at work, all ways are the present one.
            until = (first_s, activation_s, 0.0)
            _, _, _, begins_s, taken = _roll_one(known, rates, state[3:6], noise, until, 0, noted)
            for row in range(len(ways)):
                stretch = (begins_s, ends_s, taken)
                batches, rest, held, _, _ = _roll_one(known, rates, ways[row], noise, stretch, 1, noted)
                total, first, second = 0.0, 0.0, 0.0
                for number in range(batches):
                    total += count[number]
                    first += count[number] * (low[number] + high[number]) / 2
                    second += count[number] * (low[number] ** 2 + low[number] * high[number] + high[number] ** 2) / 3
                mean_s[row, column] = first / total
                square_s2[row, column] = second / total
                if not np.isnan(state[8]):
                    quantile_s[row, column] = _quantile(low, high, count, batches, total, state[8])
                left[row, column] = rest
                slots[row, column] = held


@njit
def _roll_one(
    known: tuple[Floats, Floats, Floats, Floats],
    rates: tuple[float, float],
    way: Floats,
    noise: float,
    stretch: tuple[float, float, float],
    least_found: int,
    noted: tuple[Floats, Floats, Floats],
) -> tuple[int, float, float, float, float]:
    """Fill in the range of latencies and the events of each batch under the plan.

    The `stretch` is when the first batch begins, when the last one has begun, and what was taken before. Returns how
    many batches there are, at least `least_found`, what is left at the end, the slots in force, mean over time, when
    the next batch begins, and what is taken by then.
    """
    (parts, doubt, state, rhythm), (before, during), (low, high, count) = known, rates, noted
    start_s, slot_s, skew, gap_s, noise_s, batch_s = parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]
    waiting, last, event_s = state[0], max(state[1], _LEAST_RATE), state[2]
    activation_s = state[6]
    trigger_s, target_s, cores = rhythm[0], rhythm[1], rhythm[2]
    before, during = max(before, _LEAST_RATE), max(during, _LEAST_RATE)
    # Those of the last period wait as well, as a matter of course.
    waiting = waiting + last * trigger_s / 2
    by_then = waiting + before * activation_s
    begins_s, ends_s, taken = stretch
    found, batch_events, held, held_s = 0, 0.0, 0.0, 0.0
    share_s, least, most_slots = way[0], way[1], way[2]
    while found < _BATCHES and (begins_s < ends_s or found < least_found):
        if begins_s < activation_s:
            arrived = waiting + before * begins_s
        else:
            arrived = by_then + during * (begins_s - activation_s)
        tasks = min(max(np.ceil((arrived - taken) * event_s / share_s - 1e-9), least), most_slots)
        side = min(tasks, cores)
        fixed_s = start_s + slot_s * tasks
        most = max(target_s - fixed_s, _LEAST_WORK * target_s) * side / max(skew * event_s, 1e-12)
        events = min(arrived - taken, max(most, 1.0))
        work = (batch_s + event_s * events) / side
        spread = noise_s * noise_s
        for one in range(3 if noise else 0):
            x = 1.0 if one == 0 else (tasks if one == 1 else work)
            for other in range(3):
                y = 1.0 if other == 0 else (tasks if other == 1 else work)
                spread += x * y * doubt[one, other]
        duration_s = max(fixed_s + skew * work + noise * np.sqrt(max(spread, 0.0)), 1e-3)
        through_s = begins_s + duration_s
        if begins_s >= activation_s and events > 0:
            oldest = _came_s(taken, waiting, by_then, last, before, during, activation_s)
            newest = _came_s(taken + events, waiting, by_then, last, before, during, activation_s)
            low[found], high[found], count[found] = through_s - newest, through_s - oldest, events
            found += 1
        taken += events
        batch_events = events
        next_s = max(begins_s + trigger_s, through_s + gap_s)
        if begins_s >= activation_s:
            held += tasks * (next_s - begins_s)
            held_s += next_s - begins_s
        begins_s = next_s
    rest = by_then + during * (begins_s - activation_s) - taken
    if found < least_found:  # not a single event comes
        low[0], high[0], count[0], found = start_s, start_s + trigger_s, 1.0, 1
    # What arrives while a batch runs is no backlog: the next batch takes it.
    left = max(rest - max(batch_events, during * trigger_s), 0.0)
    return found, left, held / max(held_s, 1e-9), begins_s, taken


@njit
def _came_s(
    number: float, waiting: float, by_then: float, last: float, before: float, during: float, activation_s: float
) -> float:
    """Return when an event came, by its number."""
    if number <= waiting:
        return (number - waiting) / last
    if number <= by_then:
        return (number - waiting) / before
    return activation_s + (number - by_then) / during


@njit
def _quantile(low: Floats, high: Floats, count: Floats, batches: int, total: float, level: float) -> float:
    """Return the quantile of latencies that are spread evenly over the range of each batch."""
    least, most = low[0], high[0]
    for number in range(batches):
        least, most = min(least, low[number]), max(most, high[number])
    for _ in range(40):
        middle = (least + most) / 2
        below = 0.0
        for number in range(batches):
            wide = high[number] - low[number]
            part = (middle - low[number]) / wide if wide > 1e-12 else (1.0 if middle >= low[number] else 0.0)
            below += count[number] * min(max(part, 0.0), 1.0)
        if below < level * total:
            least = middle
        else:
            most = middle
    return float(most)
