"""Word count, the first thing to run.

foretide plan-spark examples/wordcount.py                 # what it becomes on Spark
foretide run examples/wordcount.py --minutes 1            # run it, here or on a cluster with --master
python examples/wordcount.py                              # the same from Python
"""

from __future__ import annotations

import pandas as pd

from foretide import flow


# An operator is a plain function. Foretide calls it in Spark's Python workers with a piece of the rows of its task:
# a pandas DataFrame here; mode="arrow" would give an Arrow batch, mode="rows" one dictionary at a time.
def split(lines: pd.DataFrame) -> pd.DataFrame:
    words = lines.assign(word=lines["text"].str.split(" ")).explode("word")
    return words[["word", "event_time"]]


# Counts what is in one piece and keeps nothing for the next: whoever reads the sink adds the counts up. Latency is
# measured by the event time that arrives there, so a count goes by its oldest word.
def count(words: pd.DataFrame) -> pd.DataFrame:
    return words.groupby("word", as_index=False).agg(count=("word", "size"), event_time=("event_time", "min"))


job = flow("wordcount")
(
    # A recorded rate with generated lines of text. At speed 20 its twenty minutes pass in one; rate_scale makes it
    # small enough for a laptop.
    job.source("lines", "trace", trace="pasps_dns", payload="words", speed=20, rate_scale=0.02)
    # Follows its source in the same task: no exchange.
    .operator("split", split, mode="pandas", schema="word string", replicas=(1, 8))
    # Equal words must meet in one task: Foretide exchanges rows here.
    .operator("count", count, mode="pandas", grouping="fields:word", schema="word string, count long", replicas=(1, 8))
    # Keeps the rows on the driver; "parquet" (path=...) or "sqlite" (path=..., table=...) would write them.
    .sink("counts", "memory")
)
topology = job.build()


if __name__ == "__main__":
    import tempfile

    from foretide.spark import create_session, start

    spark = create_session("local[2]")
    with tempfile.TemporaryDirectory() as directory:
        with start(topology, spark, directory) as running:
            running.change_replicas({"split": 2, "count": 2})  # from the next batch on, nothing restarts
            running.wait(20)
        table = running.sink("counts").table().group_by("word").aggregate([("count", "sum")])
        print(table.sort_by([("count_sum", "descending")]).slice(0, 10).to_pandas())
    spark.stop()
