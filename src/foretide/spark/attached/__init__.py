"""`attach`: ordinary streaming queries, measured by Spark's own reports, whose executors follow their load.

May import `spark.steering` and the rooms below it.
"""
