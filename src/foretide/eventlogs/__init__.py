"""Spark's own event logs, read without Spark: what an application did and what it paid.

May import `records`, `errors`, `extras` and nothing else of Foretide's.
"""
