"""Code about tools that several rules share."""
