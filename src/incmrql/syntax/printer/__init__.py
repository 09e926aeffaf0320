"""The printer: a tree back to text that parses to an equal tree.

`scripts` prints items, and the outline that `explain --stage tree` shows; `expressions` prints
expressions with the parentheses they need, `parts` types, patterns, constants and templates.

Start with `scripts`.
"""
