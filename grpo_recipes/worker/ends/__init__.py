"""Finds where a completion ends: at which token or stop string."""
