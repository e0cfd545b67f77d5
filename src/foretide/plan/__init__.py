"""Planners: from what was measured and forecast to how many replicas every operator gets."""
