"""Runs Python that a model wrote in a sandbox of the kernel, for tools and rewards; see run.py."""
