"""The resolver: six phases from a recipe and a stack to a plan."""
