"""Control of what runs on Spark: measuring, acting on replicas and on executors.

May import `spark.driver` and the rooms below it.
"""
