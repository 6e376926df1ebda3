"""Configurations of other programs, each in its own words."""
