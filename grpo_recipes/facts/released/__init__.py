"""Facts of releases that are not installed: shipped in folded form, and updated by maintainers."""
