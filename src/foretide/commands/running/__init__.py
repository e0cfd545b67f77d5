"""Commands around a topology on Spark: run, steer, profile, plan-spark. They may import anything below."""
