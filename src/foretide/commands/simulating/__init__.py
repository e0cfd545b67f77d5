"""Commands without Spark: simulate, compare, reproduce. They may import anything below."""
