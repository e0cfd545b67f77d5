"""Runs queries of Nexmark, one after the other, on executors that are killed in the midst of a batch.

Its only argument is a file with its settings in JSON. What comes out of each query is left as ``NAME/out.parquet``, and
how its batches were as ``NAME/batches.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nexmark_deaths
import pyarrow.parquet as pq
from nexmark_deaths import all_read, build, change_replicas
from pyspark import cloudpickle

from foretide.spark import EngineSettings, create_session, start

cloudpickle.register_pickle_by_value(nexmark_deaths)


def main() -> None:
    """Run each query until all input is through."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    root = Path(given["root"])
    spark = create_session(given["master"], settings={"spark.local.dir": str(root / "local")})
    settings = EngineSettings(first_rows=given["batch_rows"], max_rows=given["batch_rows"], warm_pool=False)
    for name in given["queries"]:
        folder = root / name
        folder.mkdir()
        with start(build(name, given["trace"], folder, executor=True), spark, folder / "run", settings) as running:
            change_replicas(running, lambda running=running: all_read(running))
            running.wait()
            assert not running.failures()
            batches = [batch for batch in running.batches() if batch.rows["events"]]
            pq.write_table(running.sink("out").table(), folder / "out.parquet")
        told = {"slots": [batch.slots for batch in batches], "last": batches[-1].rows["events"]}
        (folder / "batches.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main()
