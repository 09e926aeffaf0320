"""Plans for people: what flows where, what is kept, what it costs.

* `nodes` says of each node what it is, keeps and costs, as data.
* `warnings` finds nodes that may read more than a change and its partners.
* `text` prints a plan as text or JSON, with the lineage of its nodes.

Start with `nodes`.
"""
