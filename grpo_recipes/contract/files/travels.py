"""What of this package travels: each run folder gets a copy, and trains with it alone."""

# Files and whole folders, from the package's own folder.
TRAVELS = ("__init__.py", "contract", "rewards", "worker")
