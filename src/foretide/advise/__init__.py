"""What an application paid, by its event log, and what it would have paid under a policy.

May import `sim`, `eventlogs`, `control` and everything below them; no Spark.
"""
