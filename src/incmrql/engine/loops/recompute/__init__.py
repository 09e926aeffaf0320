"""A loop run again from its beginning, inside a task, over all rows of its inputs.

`steps` runs the loop, step by step.  `groups` and `joins` are operators for many runs over the
same rows: what they know of keys that stay is kept from step to step.  `columns` has the columns
that make this cheap: rows that are references to rows of a smaller table.

Start with `steps`.
"""
