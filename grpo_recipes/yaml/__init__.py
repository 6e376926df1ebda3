"""Strict YAML: reads a recipe file as plain values, each with its line and column."""
