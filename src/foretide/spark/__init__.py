"""Everything that talks to Apache Spark."""
