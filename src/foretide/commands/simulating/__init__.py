"""Commands that need no Spark: simulate, compare, reproduce.

May import what `commands` may, but not `spark`.
"""
