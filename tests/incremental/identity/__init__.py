"""The identity of programs."""
