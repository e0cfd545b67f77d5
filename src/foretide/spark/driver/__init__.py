"""A topology on the driver: all its stages from start to stop, a run with its report, the check of a checkpoint.

May import `spark.batches` and the rooms below it.
"""
