"""TRL's trainer as a run uses it: its members, what stands around them, and in which order."""
