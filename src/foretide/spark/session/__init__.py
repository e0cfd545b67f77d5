"""A Spark session fit for Foretide: settings, data sources, the user's code on its way to workers.

May import `spark.inputs`, to register its data sources.
"""
