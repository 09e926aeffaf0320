"""The parser: text to a tree, every node with its span.

* `tokens` splits the text; `cursor` walks the tokens.
* `scripts` parses items, `expressions` expressions; `leaves` (constants and types), `patterns`,
  `templates` and `paths` their parts.
* `hints` suggests a fix for a syntax error.

Start with `scripts`, then `expressions`.
"""
