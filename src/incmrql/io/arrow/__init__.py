"""Values and types in Arrow and Parquet.

`types` maps the types of the language to Arrow types and back, `values` single values.  `columns`
spreads the elements of a type over the columns of a table.  `tables` reads tables of others as
elements of a type, whole columns at once where `casting` can.

Start with `types`.
"""
