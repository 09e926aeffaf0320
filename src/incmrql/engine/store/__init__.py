"""State tables: immutable sorted segments on disk, whose rows are summed by key.

* `content` has sorted rows with weights; `sorting` has the schema and the order of a table's rows.
* `segments` writes and maps segment files, `blocks` verifies their checksums as they are read.
* `tables` has a table: a list of segments and when to merge them; `compaction` merges large ones.
* `lookup` finds the rows of many keys at once, `ordered` those at given ranks.

Start with `tables`, then `lookup`.
"""
