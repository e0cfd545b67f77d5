"""The health of workers: who is slow, who stalls, and ways around them (SPEC I6).

May import `spark.executors`, `spark.driver` and the rooms below them.
"""
