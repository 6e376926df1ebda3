"""The guards that watch a training run: one file each, whose docstring is its page."""
