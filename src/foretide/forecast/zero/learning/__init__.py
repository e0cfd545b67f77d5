"""Making the weights: made-up series, the network in JAX, training that can be resumed, scores.

Needs JAX (extra `train`). May import `zero.shape` and `zero.features`, and nothing else of the house.
"""
