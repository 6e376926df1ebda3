"""Measures the peak memory of each training phase, and explains out-of-memory failures."""
