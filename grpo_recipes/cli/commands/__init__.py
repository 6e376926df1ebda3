"""The commands, one per file, named as they are typed."""
