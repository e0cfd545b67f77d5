"""Starts a job with Foretide attached, as a script of its own: ``launcher.py [options] job.py [arguments]``.

``foretide attach`` becomes it, and ``spark-submit`` takes it for the application. It runs nothing of Foretide's around
the job, so that the job's exit status, tracebacks and signals are its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Read the options, see to it that the session is attached to, and run the job."""
    from foretide.commands.running.attach import prepare
    from foretide.commands.running.script import run_script

    job = prepare(arguments)
    run_script(job.path, job.arguments)


if __name__ == "__main__":
    # Python has put the folder of this file on the path, whose modules are not meant to be found by their bare names.
    if sys.path[:1] == [str(Path(__file__).resolve().parent)]:
        del sys.path[0]
    main(sys.argv[1:])
