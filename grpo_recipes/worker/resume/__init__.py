"""Resumes a run from a checkpoint: restores state, and checks that the checkpoint belongs to the run."""
