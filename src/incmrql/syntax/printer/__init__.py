"""printer."""
