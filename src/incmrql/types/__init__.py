"""Types: a tree becomes a typed tree, with every name resolved and every conversion written out.

* `model` has the types, `lattice` sub-typing and casts, `typed` the nodes of the typed tree.
* `infer` makes the typed tree (`infer_script`); `builtins` has the signatures it looks up.
* `scope` has the names in scope and the `Catalog` of what a script may refer to.
* `walk` and `show` are for passes over the typed tree; `questionable` has warnings.

Start with `model` and `typed`, then `infer.expressions`.
"""
