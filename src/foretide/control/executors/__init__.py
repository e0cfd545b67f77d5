"""How many executors are needed, ahead of when they come, and when one is let go; no Spark.

May import `control.settings`, `plan` and everything below them.
"""
