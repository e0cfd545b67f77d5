"""Whether tasks run on the driver's machine, and how many cores they share there."""

from __future__ import annotations

import os

__all__ = ["machine_cores", "on_this_machine"]


def on_this_machine(master: str) -> bool:
    """Return whether executors run where the driver does.

    >>> on_this_machine("local-cluster[2,1,1024]"), on_this_machine("spark://10.0.0.5:7077")
    (True, False)
    """
    return master.startswith("local")


def machine_cores(master: str) -> int | None:
    """Return the cores that all tasks share, where they run on this machine; None where executors have their own.

    ``local[20]`` runs twenty tasks side by side, on whatever cores there are.

    >>> machine_cores("local[20]") == machine_cores("local[1]"), machine_cores("yarn") is None
    (True, True)
    """
    if not on_this_machine(master):
        return None
    affinity = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() if affinity is None else len(affinity(0))
