"""Many runs of one recipe: settings, names, the file that lists them, and their comparison."""
