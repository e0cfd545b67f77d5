"""Figures of BGElasor, made anew."""
