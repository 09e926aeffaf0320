"""The algebra: typed expressions become terms, and terms are brought to normal form.

* `term` has the operators (cMap, groupBy, coGroup, ...), `walk` and `rows` take apart and build.
* `scope` knows which expressions read a source; `comprehensions` has the clauses of a select.
* `translate` makes terms of a typed query and unnests its sub-queries.
* `normalize` rewrites terms, each rule with its law; `normalize.strategy` has their order.
* `lineage` and `failures` turn a query into one that also says where rows come from, or where
  arithmetic fails.

Start with `term`, then `normalize.strategy`.
"""
