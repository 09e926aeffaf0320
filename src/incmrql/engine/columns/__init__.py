"""Values as columns: how the engine holds rows, keys and sums.

* `layouts` says which columns hold the values of a type; `rows` are such columns with weights.
* `keys` gives canonical bytes and hashes of whole columns.
* `accumulators` holds the sums of groups as columns that are merged by adding.
* `pipelines` runs a linear pipeline over rows; `pinned` has the functions it calls by column,
  `texts` the casts of texts.

Start with `layouts`, then `rows`.
"""
