"""elementary."""
