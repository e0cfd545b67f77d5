"""Control of what runs on Spark: measuring, acting on replicas and on executors.

May import `spark.workers` and the rooms below it.
"""
