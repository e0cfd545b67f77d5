"""Commands around a topology on Spark: run, steer, profile, plan-spark.

May import what `commands` may; `steer` works without Spark.
"""
