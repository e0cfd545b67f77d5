"""What a run begins with."""

from __future__ import annotations

from dataclasses import dataclass

from foretide.control.starting.first_replicas import FirstReplicas
from foretide.control.starting.rehearsal import Rehearsal
from foretide.store import RunStore

__all__ = ["Beginning"]


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What a run begins with; each part may be missing.

    Parameters
    ----------
    rehearsal : Rehearsal, optional
        The one that was begun while the engine started; else it begins with the run.
    first : FirstReplicas, optional
        Replicas to begin with, unless someone has given some, or an earlier run in the same directory has left some.
    past : RunStore, optional
        Where earlier runs are, whose knowledge is resumed, see `Memory`; without it, the run begins afresh.
    """

    rehearsal: Rehearsal | None = None
    first: FirstReplicas | None = None
    past: RunStore | None = None
