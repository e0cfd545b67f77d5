"""A pretrained forecaster: a small causal network that has seen made-up series alone.

`features` and `shape` serve both sides; inference needs numpy, `learning` needs JAX (extra `train`).
May import `records`, `errors` and the other forecasters' contract; `learning` nothing but its neighbours.
"""
