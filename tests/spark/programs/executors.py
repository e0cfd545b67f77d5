"""Scales the executors of a small cluster down and up, and prints what was planned, requested and observed."""

from __future__ import annotations

import json
import sys
import time

from foretide.spark import create_session
from foretide.spark.executors import ExecutorCounts, ExecutorManager, ExecutorSettings, open_scheduler


def wait_for(manager: ExecutorManager, executors: int, seconds: float = 60.0) -> ExecutorCounts:
    """Ask for so many executors until they are there."""
    deadline_s = time.monotonic() + seconds
    while (counts := manager.request(executors)).observed != executors and time.monotonic() < deadline_s:
        time.sleep(0.2)
    return counts


def main() -> None:
    spark = create_session("local-cluster[2,1,1024]", "executors")
    scheduler = open_scheduler(spark)
    # The cluster starts as many as it can.
    deadline_s = time.monotonic() + 60.0
    while len(scheduler.executors()) < 2 and time.monotonic() < deadline_s:
        time.sleep(0.1)
    manager = ExecutorManager(scheduler, ExecutorSettings(minimum=1, maximum=2, release_after_s=0.0))
    found = {"cores": scheduler.cores, "first": len(scheduler.executors())}
    found["fewer"] = wait_for(manager, 1).observed
    found["works"] = spark.sparkContext.parallelize(range(10), 2).count()
    at_once = manager.request(9)
    found["planned"], found["requested"] = at_once.planned, at_once.requested
    found["more"] = wait_for(manager, 2).observed
    print(json.dumps(found), file=sys.stdout, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
