"""Translation: typed queries become terms.

`queries` is the entry point (`translate`).  `clauses` turns the clauses of a select into joins,
filters and groups, in the order that `ordering` finds; `unnest` turns each sub-query over a source
into a join with the rows around it, `semijoins` membership in one into a semi-join.  `views` says
which named queries are translated once.

Start with `queries`.
"""
