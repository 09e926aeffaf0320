"""Loops over changing inputs: one operator with three ways to follow its inputs.

* `operator` is the operator; it chooses a way by measured costs.  `steps` is what they share.
* `exact` propagates changes through the steps; `recompute` runs the loop again from its beginning.
* `affine` and `centroids` diffuse: approximate answers with an error bound.
* `offload` hands a loop that is too large for a task to Spark and takes its result back.

Start with `operator`, then `exact`.
"""
