"""From a topology to stages: what becomes one streaming query, what runs in one task, where rows are exchanged.

May import `topology` and what lies below it. No Spark is needed.
"""
