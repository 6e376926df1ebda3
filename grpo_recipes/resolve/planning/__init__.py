"""Builds a plan from complete, checked settings."""
