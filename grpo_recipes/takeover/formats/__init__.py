"""Reads the configurations of other programs, one module for each format."""
