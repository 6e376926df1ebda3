"""Code that several checks of a preflight use."""
