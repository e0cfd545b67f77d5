"""Live stages: tasks that stay, each with strands of the stage's topics, committed every few tens of milliseconds.

May import `spark.batches` and the rooms below it.
"""
