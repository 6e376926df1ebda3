"""Checks that a run folder is unchanged; standard library only."""
