"""The sections of a recipe, each from what a configuration says of it."""
