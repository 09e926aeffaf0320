"""The identity of a program: versioned digests of its nodes and of the whole.

A checkpoint is resumed only by a program with the same digests.  The digest of a node covers its
structure: stable tags and an explicit list of fields (`fields`), a version for every operator and
built-in (`versions`), the canonical bytes of constants and stored values, the source of Python
functions (`python`) and the digests of the nodes below it.  Names of variables and functions,
positions in the text and printed forms are left out.

Start with `program_identity`.
"""

from incmrql.plan.identity.encoding import SCHEME, Encoder, ProgramIdentity, program_identity

__all__ = ["SCHEME", "Encoder", "ProgramIdentity", "program_identity"]
