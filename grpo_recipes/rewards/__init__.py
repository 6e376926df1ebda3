"""The shipped reward functions, one per file; file, function and the recipe's name are the same word."""
