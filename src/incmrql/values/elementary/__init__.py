"""exp, log, pow and the trigonometric functions, with the same bits on every machine.

`functions` has them for columns of doubles.  It reduces an argument with `tables` and computes with
sums of two doubles (`pairs`), about 106 bits, before it rounds once.

Start with `functions`.
"""
