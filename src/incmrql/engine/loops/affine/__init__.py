"""affine."""
