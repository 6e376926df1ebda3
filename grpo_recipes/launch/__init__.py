"""Starting a run folder on this machine, watching it, and saying how it ended."""
