"""What makes two programs the same: versioned digests of their nodes and of the whole.

A checkpoint is resumed only by a program with the digests that it was written with.  A digest is
over the structure of a node: stable tags and an explicit list of fields (`fields`), a version for
every operator and built-in (`versions`), the canonical bytes of constants and stored values, the
source of Python functions (`python`) and the digests of the nodes below it.  Names of variables
and functions, places in the text and whatever is only printed are left out.

Start with `program_identity`.
"""

from incmrql.plan.identity.encoding import SCHEME, Encoder, ProgramIdentity, program_identity

__all__ = ["SCHEME", "Encoder", "ProgramIdentity", "program_identity"]
