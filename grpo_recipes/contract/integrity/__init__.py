"""Checks that a run folder is unchanged, and who wrote it; standard library only."""
