"""Pages about rules and keys, made from the code."""
