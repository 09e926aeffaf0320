"""Terms as SQL: each step of a term is a named relation, and a query is one text.

* `terms` has one rule for each operator; `flows` lowers cMaps, `joins` cMaps over groups.
* `builder` collects the named relations, `compact` merges and prunes them.
* `picking` moves steps into trees to where the trees are parsed.
* `statements` gives the finished text with all that an engine needs to run it (`statement`).

Start with `statements`, then `terms`.
"""
