"""The checks: one file each, whose docstring is the page of its ID."""
