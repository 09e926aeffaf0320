"""expressions."""
