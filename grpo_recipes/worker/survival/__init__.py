"""Keeps a run from hanging, and records why it ended."""
