"""Exact sums in SQL, with the same bits as `values.exact`.

`limbs` adds up integers and doubles in columns of integers; `rounding` rounds such a sum once, to
the nearest double.  `aggregates` builds sums, averages, variances and deviations from both.

Start with `limbs`.
"""
