"""Kills the repartition of a state at one moment after another, and looks at the state after each.

Usage: killed_repartition.py DIR prints how many kills there were, and where the state stood after them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from counted_state import Counting, counted, expected, found, partitions

from foretide.state import ledger
from foretide.state.repartition import repartition_state

# What a process tells Python's auditors before it changes a directory.
CHANGES = ("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir")
STEP = 4


def killed_at(change: int, root: Path, wanted: int) -> bool:
    """Repartition in a process that is killed before it makes so many changes; tell whether it was."""
    child = os.fork()
    if not child:
        left = [change]

        def count(event: str, arguments: Any) -> None:
            if event in CHANGES:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            repartition_state(root, "count", wanted)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or not status, "a repartition failed after a kill"
    return os.WIFSIGNALED(status)


def main(root: Path) -> None:
    """Kill until an attempt comes through."""
    ledger._LEAST_ROWS = 50
    counting, kills, stood = counted(root), 0, set[str]()
    while True:
        before = partitions(root)
        wanted = 11 - before
        if not killed_at(1 + STEP * kills, root, wanted):
            break
        kills += 1
        after = partitions(root)
        assert after in (before, wanted), after
        stood.add("before" if after == before else "after")
        assert found(root) == expected()
        again = Counting(root, partitions=after, views=f"views{kills}", batch=counting.batch)
        assert again.run([1, 101], commit=False) == {1: 30, 101: 1}
    assert partitions(root) == wanted and found(root) == expected()
    print(json.dumps([kills, sorted(stood)]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
