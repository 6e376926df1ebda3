"""Runs Python that a model wrote, held by the kernel; for tools and rewards. What it keeps is in run.py."""
