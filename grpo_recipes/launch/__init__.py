"""Starts a run folder on this machine, watches it and reports how it ended."""
