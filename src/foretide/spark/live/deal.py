"""Who has which strands: the deal, and handing a strand over without a gap or an overlap that counts.

Nothing here talks to anyone: events come in, commands go out, see `Coordinator`. That nothing is lost or done twice
does not rest on it, since strands fence each other off (`foretide.kafka.strands`): it sees that each has one task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["Command", "Coordinator", "Deed", "deal", "useful_tasks"]

Deed: TypeAlias = Literal["prepare", "take", "release", "end"]
# Seconds that a task has to let go of a strand; then it is fenced off.
_PATIENCE_S = 2.0


def deal(strands: Sequence[str], tasks: Sequence[str], held: Mapping[str, str]) -> dict[str, str]:
    """Deal strands out to tasks evenly, moving as few as possible.

    >>> deal(["a", "b", "c"], ["one", "two"], {"a": "one", "b": "one", "c": "one"})
    {'a': 'one', 'b': 'one', 'c': 'two'}
    >>> deal(["a", "b", "c"], ["two"], {"a": "one", "b": "one", "c": "two"})
    {'a': 'two', 'b': 'two', 'c': 'two'}
    """
    if not tasks:
        return {}
    having = {task: [strand for strand in strands if held.get(strand) == task] for task in tasks}
    fullest = sorted(tasks, key=lambda task: -len(having[task]))
    room = {
        task: len(strands) // len(tasks) + (place < len(strands) % len(tasks)) for place, task in enumerate(fullest)
    }
    dealt = {strand: task for task in tasks for strand in having[task][: room[task]]}
    for task in dealt.values():
        room[task] -= 1
    takers = [task for task in fullest for _ in range(room[task])]
    left = [strand for strand in strands if strand not in dealt]
    dealt.update(zip(left, takers, strict=True))
    return {strand: dealt[strand] for strand in strands}


def useful_tasks(tasks: int, strands: int) -> int:
    """Return with how few tasks the busiest one has no more strands than with so many, but at least one.

    Each task holds a core. Of six strands the busiest of five tasks has two, and so it has with three.

    >>> [useful_tasks(tasks, strands=6) for tasks in (1, 2, 3, 4, 5, 6, 9)]
    [1, 2, 3, 3, 3, 6, 6]
    """
    if strands < 1 or tasks < 1:
        return 1
    most = -(-strands // tasks)
    return -(-strands // most)


@dataclass(frozen=True)
class Command:
    """What a task is told to do; with a strand it gets the number of the grant, by which it tells what became of it."""

    task: str
    do: Deed
    strand: str = ""
    grant: int = 0


@dataclass
class _Held:
    """Who has a strand by which grant, who is to have it next and stands ready, since when the owner is to let go.

    One whose owner is gone without letting go is `left`, until someone takes it.
    """

    owner: str | None = None
    grant: int = 0
    heir: str | None = None
    is_ready: bool = False
    asked_s: float | None = None
    left: bool = False


@dataclass
class Coordinator:
    """Gives strands to tasks, and moves them when tasks come and go.

    A strand that moves is prepared by its next task first. Then its owner lets go, and the next one takes it; all other
    strands go on. The strands of a task that is gone are taken by others at once.

    Parameters
    ----------
    strands : mapping of str to str
        Who has which strand; all are free in the beginning.
    """

    strands: dict[str, _Held] = field(default_factory=dict)
    #: The seat of every task that is connected.
    tasks: dict[str, int] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, strands: Iterable[str]) -> Coordinator:
        """Return one for strands of these names."""
        return cls({strand: _Held() for strand in strands})

    def is_at_rest(self, strands: Iterable[str]) -> bool:
        """Return whether no task has any of these strands."""
        return all(self.strands[strand].owner is None for strand in strands)

    def take_left(self, strands: Iterable[str]) -> list[str]:
        """Return those of these strands that their owners have left, and take it that someone sees to them now."""
        found = [strand for strand in strands if self.strands[strand].left]
        for strand in found:
            self.strands[strand].left = False
        return found

    def owned(self, task: str) -> list[str]:
        """Return the strands of a task."""
        return [strand for strand, held in self.strands.items() if held.owner == task]

    def joined(self, task: str, seat: int) -> None:
        """Take note of a task that has connected."""
        self.tasks[task] = seat

    def gone(self, task: str) -> None:
        """Take note that a task is not there any more."""
        self.tasks.pop(task, None)
        self._ended.discard(task)
        for held in self.strands.values():
            if held.owner == task:
                held.owner = held.asked_s = None
                held.left = True
            if held.heir == task:
                held.heir, held.is_ready = None, False

    def ready(self, task: str, strand: str) -> None:
        """Take note that a task stands ready to take a strand."""
        held = self.strands[strand]
        held.is_ready = held.is_ready or held.heir == task

    def released(self, strand: str, grant: int) -> None:
        """Take note that a task has let go of a strand, or has lost it; what an older grant came to means nothing."""
        held = self.strands[strand]
        if held.grant == grant:
            held.owner = held.asked_s = None

    def renew(self, strand: str, now_s: float) -> list[Command]:
        """Return what lets a strand be given anew, since it has changed."""
        held = self.strands[strand]
        if held.owner is None or held.asked_s is not None:
            return []
        held.asked_s = now_s
        return [Command(held.owner, "release", strand, held.grant)]

    def commands(self, now_s: float, seats: Collection[int], resting: Collection[str] = ()) -> list[Command]:
        """Return what tasks are to do now.

        Parameters
        ----------
        now_s : float
            The present, by a clock that never jumps.
        seats : collection of int
            The seats whose tasks are to have strands; tasks on others end once they have none.
        resting : collection of str
            Strands that nobody is to have.
        """
        latest = {seat: task for task, seat in self.tasks.items()}
        present = [
            task
            for task, seat in self.tasks.items()
            if seat in seats and latest[seat] == task and task not in self._ended
        ]
        found: list[Command] = []
        held = {strand: one.heir or one.owner or "" for strand, one in self.strands.items()}
        targets = deal([strand for strand in self.strands if strand not in resting], present, held)
        for strand in self.strands if present else resting:
            found += self._move(strand, targets.get(strand), now_s)
        for task in set(self.tasks) - set(present) - self._ended:
            if present and not self.owned(task):
                self._ended.add(task)
                found.append(Command(task, "end"))
        return found

    def _move(self, strand: str, target: str | None, now_s: float) -> list[Command]:
        held = self.strands[strand]
        if held.owner is None:
            return [] if target is None else self._give(strand, held, target)
        if held.asked_s is not None:
            if now_s - held.asked_s <= _PATIENCE_S:
                return []
            # Whoever takes it now fences it off.
            held.owner, held.asked_s, held.left = None, None, True
            return [] if target is None else self._give(strand, held, target)
        if target == held.owner:
            held.heir, held.is_ready = None, False
            return []
        if target is not None and held.heir != target:
            held.heir, held.is_ready = target, False
            return [Command(target, "prepare", strand)]
        if target is None or held.is_ready:
            held.asked_s = now_s
            return [Command(held.owner, "release", strand, held.grant)]
        return []

    @staticmethod
    def _give(strand: str, held: _Held, target: str) -> list[Command]:
        held.owner, held.heir, held.is_ready, held.asked_s, held.left = target, None, False, None, False
        held.grant += 1
        return [Command(target, "take", strand, held.grant)]
