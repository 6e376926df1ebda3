"""Explains unknown keys: where they belong, which program has them, or the intended key."""
