"""Operators of a plan as relations: one module for each family.

* `dispatch` finds the function for a class; `table` has what is converted and what is refused.
* `rowwise` has what looks at one row: projections, filters, generators; `joins` all joins.
* `aggregation` has groups, `measures` the aggregate functions: of sums in `moments`, by an order or
  a choice in `choices`, made with `bags`; `sets` has distinct rows and unions, `sorting` limits.
* `subqueries` makes sub-queries values; `sharing` names views and other parts that are used twice.

Start with `dispatch`.
"""
