"""What a run begins with."""

from __future__ import annotations

from dataclasses import dataclass

from foretide.control.starting.first_hold import FirstHold
from foretide.control.starting.first_replicas import FirstReplicas
from foretide.control.starting.rehearsal import Rehearsal
from foretide.plan import Guarded, Planner
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
        Replicas that were chosen for it, and are not to be taken back at once.
    past : RunStore, optional
        Where earlier runs are, whose knowledge is resumed, see `Memory`; without it, the run begins afresh.
    """

    rehearsal: Rehearsal | None = None
    first: FirstReplicas | None = None
    past: RunStore | None = None

    def guarded(self, planner: Planner | Guarded) -> Planner | Guarded:
        """Return the planner, its first plans kept from taking back at once what the run began with."""
        return planner if self.first is None else Guarded(planner, (FirstHold(),))
