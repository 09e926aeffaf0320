"""What each kind of node remembers, and what it does with changes."""
