"""Slot-seconds of stages whose slots follow their batches."""

from __future__ import annotations

from topologies import line, step

from foretide.compile.stages import compile_stages
from foretide.records import BatchRun
from foretide.spark.steering.held_slots import HeldSlots


def batch(began_at_s: float, duration_s: float, slots: int) -> BatchRun:
    return BatchRun(stage=0, began_at_s=began_at_s, duration_s=duration_s, slots=slots, events=1, work_s=0.1)


def test_slots_are_held_until_the_next_batch_begins() -> None:
    """Three slots for 2 s and the second after, five for 1 s: 3·2 + 3·1 + 5·1."""
    stages = [stage for stage in compile_stages(line(step("a"))).stages if stage.operators]
    held = HeldSlots(stages)
    assert held.add([], [], {"a": 2}, now_s=10.0) == 0.0
    assert held.add([batch(10.0, 2.0, 3), batch(13.0, 1.0, 5)], [], {"a": 2}, now_s=14.5) == 14.0
    # Nothing is under way: the five slots are held since 14.
    assert held.add([], [stages[0].id], {"a": 2}, now_s=16.0) == 10.0


def test_a_stage_without_a_batch_holds_what_is_planned() -> None:
    stages = [stage for stage in compile_stages(line(step("a"))).stages if stage.operators]
    held = HeldSlots(stages)
    held.add([], [stages[0].id], {"a": 4}, now_s=10.0)
    assert held.add([], [stages[0].id], {"a": 4}, now_s=12.0) == 8.0
