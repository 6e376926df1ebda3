"""How much a training computes in a step, and how long that takes, from sizes, settings and datasheets alone."""
