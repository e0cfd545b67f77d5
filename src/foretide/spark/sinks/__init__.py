"""Where results leave a topology, once each, whatever is replayed.

May import `spark.tasks`.
"""
