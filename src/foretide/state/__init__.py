"""State by key: partitions of it, the changelog that is its truth, and views of that beside the workers.

May import `grouping`, `transport` and the small modules.
"""
