"""The batches of a stage: how large one is, who reads what, one Spark job, and where its rows leave.

May import `spark.inputs`, `spark.sinks`, `spark.pool` and `spark.tasks`.
"""
