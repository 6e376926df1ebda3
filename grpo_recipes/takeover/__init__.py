"""Converts other programs' configurations to recipes: every key is mapped, emulated or refused with a reason."""
