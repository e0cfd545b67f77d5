"""Models of forecasters beside the loop: those trained elsewhere are taken over, and trained again while it runs.

May import what `control` may.
"""
