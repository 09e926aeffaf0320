"""Loops: what a step does with changes, and how changes go through the steps.

* `program` turns a loop into a program of changes, of one step or of all steps with their numbers.
* `looping` has what is known of a loop before there are data; `driving` sends changes through it.

Start with `program`.
"""
