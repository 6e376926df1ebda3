"""Strict YAML: a recipe file becomes plain values, each with its line and column."""
