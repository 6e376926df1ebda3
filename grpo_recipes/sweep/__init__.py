"""Many runs of one recipe: their settings, their names, the file that lists them, and what they showed."""
