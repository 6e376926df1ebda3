"""Opens, locks, reads and writes files of a run folder within limits, since the folder may come from a stranger."""
