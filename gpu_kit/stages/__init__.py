"""The stages, a file for each subject; catalog.py has them in their order."""
