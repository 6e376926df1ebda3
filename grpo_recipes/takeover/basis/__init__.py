"""Shared by all parts of a takeover: the input file, its release and machine, and the draft of the recipe."""
