"""Training of many forecasters on many series side by side, on Spark.

May import nothing else of `spark`.
"""
