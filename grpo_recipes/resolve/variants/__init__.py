"""Derives other forms of a recipe or a plan: merged, minimal, or two steps long."""
