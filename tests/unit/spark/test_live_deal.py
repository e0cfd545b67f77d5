"""Who has which strands, and how they move."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from foretide.spark.live.deal import Command, Coordinator, deal, useful_tasks

STRANDS = ["a", "b", "c", "d"]


@given(
    strands=st.integers(0, 12),
    tasks=st.integers(1, 6),
    held=st.dictionaries(st.integers(0, 11), st.integers(0, 8)),
)
def test_strands_are_dealt_evenly_and_no_more_move_than_must(strands: int, tasks: int, held: dict[int, int]) -> None:
    names, players = [f"l{n}" for n in range(strands)], [f"t{n}" for n in range(tasks)]
    having = {f"l{strand}": f"t{task}" for strand, task in held.items() if strand < strands}
    dealt = deal(names, players, having)
    counts = [sum(task == player for task in dealt.values()) for player in players]
    assert list(dealt) == names
    assert max(counts) - min(counts) <= 1
    kept = sum(dealt[strand] == having.get(strand) for strand in names)
    before = sorted((sum(task == player for task in having.values()) for player in players), reverse=True)
    room = [strands // tasks + (place < strands % tasks) for place in range(tasks)]
    assert kept == sum(min(one, other) for one, other in zip(before, room, strict=True))


@given(tasks=st.integers(1, 40), strands=st.integers(1, 40))
def test_no_task_is_kept_that_takes_nothing_off_the_busiest(tasks: int, strands: int) -> None:
    def busiest(count: int) -> int:
        return -(-strands // count)

    useful = useful_tasks(tasks, strands)
    assert 1 <= useful <= tasks
    assert busiest(useful) == busiest(tasks)
    assert useful == 1 or busiest(useful - 1) > busiest(useful)


def test_a_stage_whose_topics_have_no_partition_yet_has_one_task() -> None:
    assert useful_tasks(3, 0) == 1


class Play:
    """A coordinator whose tasks do what they are told, at once or when a test says so."""

    def __init__(self, *seats: int) -> None:
        self.coordinator, self.seats, self.now = Coordinator.of(STRANDS), set(seats), itertools.count()
        for seat in seats:
            self.coordinator.joined(f"t{seat}", seat)

    def step(self, **given: bool) -> list[Command]:
        return self.coordinator.commands(next(self.now) / 100, self.seats, **given)

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            if command.do == "prepare":
                self.coordinator.ready(command.task, command.strand)
            elif command.do == "release":
                self.coordinator.released(command.strand, command.grant)
            elif command.do == "end":
                self.coordinator.gone(command.task)

    def settle(self, **given: bool) -> list[Command]:
        """Obey until nothing is left to do; return all commands."""
        found: list[Command] = []
        while commands := self.step(**given):
            self.obey(commands)
            found += commands
        return found

    def owners(self) -> dict[str, str | None]:
        return {strand: held.owner for strand, held in self.coordinator.strands.items()}


def test_the_first_deal_gives_all_strands_at_once() -> None:
    play = Play(0, 1)
    assert {command.do for command in play.step()} == {"take"}
    assert play.owners() == {"a": "t0", "b": "t0", "c": "t1", "d": "t1"}
    assert play.step() == []


def test_a_strand_moves_when_its_next_task_is_ready_and_others_stay() -> None:
    play = Play(0)
    play.settle()
    play.coordinator.joined("t1", 1)
    play.seats.add(1)
    prepared = play.step()
    assert {(command.task, command.do) for command in prepared} == {("t1", "prepare")} and len(prepared) == 2
    assert play.step() == []
    first = prepared[0].strand
    play.coordinator.ready("t1", first)
    [release] = play.step()
    assert (release.task, release.do, release.strand) == ("t0", "release", first)
    assert play.step() == []
    play.coordinator.released(first, release.grant)
    [take] = play.step()
    assert (take.task, take.do, take.strand) == ("t1", "take", first) and take.grant > release.grant


def test_a_task_that_is_not_wanted_ends_when_it_has_no_strand_left() -> None:
    play = Play(0, 1, 2)
    play.settle()
    play.seats.remove(2)
    done = play.settle()
    assert done[-1] == Command("t2", "end")
    assert set(play.owners().values()) == {"t0", "t1"}


def test_strands_of_a_task_that_is_gone_are_taken_at_once() -> None:
    play = Play(0, 1)
    play.settle()
    play.coordinator.gone("t1")
    assert {(command.task, command.do) for command in play.step()} == {("t0", "take")}


def test_a_strand_that_is_not_let_go_of_is_taken_by_force() -> None:
    play = Play(0)
    play.settle()
    play.coordinator.joined("t1", 1)
    play.seats.add(1)
    for command in play.step():
        play.coordinator.ready("t1", command.strand)
    released = play.step()
    assert [command.do for command in released] == ["release", "release"]
    late = play.coordinator.commands(10.0, play.seats)
    assert [(command.task, command.do) for command in late] == [("t1", "take")] * 2
    # What the old owner says of its grant means nothing now.
    play.coordinator.released(released[0].strand, released[0].grant)
    assert play.owners()[released[0].strand] == "t1"


def test_a_pause_takes_all_strands_and_its_end_gives_them_back() -> None:
    play = Play(0, 1)
    play.settle()
    assert not play.coordinator.is_at_rest(play.coordinator.strands)
    play.settle(resting=["b"])
    assert play.owners()["b"] is None and None not in [play.owners()[strand] for strand in "acd"]
    play.settle(resting=list(play.coordinator.strands))
    assert play.coordinator.is_at_rest(play.coordinator.strands)
    play.settle()
    assert set(play.owners().values()) == {"t0", "t1"}


def test_the_latest_task_of_a_seat_replaces_the_one_before() -> None:
    play = Play(0)
    play.settle()
    play.coordinator.joined("again", 0)
    play.settle()
    assert set(play.owners().values()) == {"again"} and "t0" not in play.coordinator.tasks


def test_a_strand_that_has_changed_is_given_anew_to_its_owner() -> None:
    play = Play(0)
    play.settle()
    [release] = play.coordinator.renew("a", 0.0)
    assert (release.task, release.do) == ("t0", "release") and play.coordinator.renew("a", 0.0) == []
    play.coordinator.released("a", release.grant)
    assert play.step() == [Command("t0", "take", "a", release.grant + 1)]


def test_nobody_lets_go_while_nobody_else_is_there() -> None:
    play = Play(0)
    play.settle()
    play.seats = {1}
    assert play.settle() == []
    assert set(play.owners().values()) == {"t0"}


def test_what_a_task_leaves_that_is_gone_is_seen_to_once_unless_another_takes_it() -> None:
    play = Play(0, 1)
    play.settle()
    [task] = {owner for strand, owner in play.owners().items() if strand == "a"}
    assert task is not None
    owned = play.coordinator.owned(task)
    play.coordinator.gone(task)
    assert play.coordinator.take_left(play.coordinator.strands) == owned
    assert play.coordinator.take_left(play.coordinator.strands) == []
    other = next(owner for owner in play.owners().values() if owner is not None)
    play.coordinator.gone(other)
    play.coordinator.joined("last", 0)
    play.settle()
    assert play.coordinator.take_left(play.coordinator.strands) == [], "all were taken"
