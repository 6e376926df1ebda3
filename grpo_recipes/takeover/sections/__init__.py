"""Builds each section of a recipe from a configuration."""
