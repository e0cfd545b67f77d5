"""Figures of DABS, made anew."""
