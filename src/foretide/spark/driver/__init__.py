"""What the driver does: a batch, a stage with its query, all stages of a topology, a run from start to report.

May import `spark.inputs`, `spark.sinks`, `spark.pool` and `spark.tasks`.
"""
