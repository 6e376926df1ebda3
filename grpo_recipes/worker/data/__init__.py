"""Loads rows and renders their prompts and columns."""
