"""Proposes a recipe for a data file: reads its first rows, and guesses prompt, right answer and rewards from them."""
