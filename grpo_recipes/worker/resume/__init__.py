"""A run that goes on from a checkpoint: what is kept of it, and whether it is the same run."""
