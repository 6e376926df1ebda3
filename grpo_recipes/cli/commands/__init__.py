"""The commands, one per file, each named as it is typed."""
