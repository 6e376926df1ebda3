"""The shipped reward functions, one per file; file, function and recipe use the same name."""
