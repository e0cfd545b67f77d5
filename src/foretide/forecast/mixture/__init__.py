"""The default forecaster `auto`: many experts, mixed online. It may import `forecast` and its models."""
