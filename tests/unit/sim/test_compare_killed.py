"""A comparison that is killed leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_for

pytestmark = pytest.mark.slow

COMPARE = ["compare", "--traces", "pasps_*", "--policies", "pasps:basic,ds2,static", "--seeds", "100", "--jobs", "2"]


def workers_of(pid: int) -> set[int]:
    """Return the processes that a comparison gives its runs to."""
    found = set[int]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_text()
        except OSError:  # it has ended meanwhile
            continue
        if parent == pid and "spawn_main" in command:
            found.add(int(path.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are read from /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_a_comparison(how: signal.Signals) -> None:
    command = [sys.executable, "-c", "from foretide.cli import main; main()", *COMPARE]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(workers_of(process.pid)) == 2)
        workers = workers_of(process.pid)
        process.send_signal(how)
        process.wait(60)
        wait_for(lambda: not any(is_alive(pid) for pid in workers))
    finally:
        process.kill()
        process.wait()
