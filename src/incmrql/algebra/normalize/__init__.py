"""Normal form: rewrite rules, each with its law, applied until none fits.

`rewrite` is the engine: it walks a term, tries the rules and records every step.  `rules` has the
rules, `strategy` the phases in which they are used.

Start with `strategy`, then `rewrite`.
"""
