"""feeds."""
