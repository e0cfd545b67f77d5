"""Python workers that are warm before a replica needs them (SPEC P2).

May import `spark.tasks`.
"""
