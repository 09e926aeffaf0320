"""The algebra: typed expressions become terms, and terms are brought to normal form.

* `term` has the operators (cMap, groupBy, coGroup, ...), `walk` and `rows` what passes need.
* `translate` makes terms of a typed query and unnests its sub-queries.
* `normalize` rewrites terms, rule by rule, each with its law; `normalize.strategy` says in what
  order.
* `lineage` and `failures` turn a query into one that also says where rows come from, or where
  arithmetic fails.

Start with `term`, then `normalize.strategy`.
"""
