"""Control of what runs on Spark: measuring, acting on replicas and executors, and `attach` for foreign queries.

May import `spark.driver` and the rooms below it.
"""
