"""Diffusion of affine loops, such as PageRank: a batch moves the result by its differences.

`operator` follows a batch and bounds the error.  `state` has the matrix, the vectors and the
numbers of their rows; `tables` names the state tables that hold them.  `compile` makes all of it
from the plan of a loop (`plan.diffusion`).

Start with `tables`, then `operator`.
"""
