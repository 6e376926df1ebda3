"""The stages, one file per subject; catalog.py lists them in order."""
