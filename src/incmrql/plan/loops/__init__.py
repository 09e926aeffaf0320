"""Loops as programs of changes, and how changes pass through their steps.

* `program` turns a loop into a program of changes: of one step, or of all steps with their numbers.
* `driving` runs the steps that a change reaches.

Start with `program`.
"""
