"""Loops kept by diffusion, over dictionaries: `state.DiffusedState` is where to start."""
