"""hashing."""
