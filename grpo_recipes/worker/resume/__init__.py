"""Resuming a run from a checkpoint: what the checkpoint adds, and whether it is of the same run."""
