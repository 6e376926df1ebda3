"""How much a training computes, in tokens and floating-point operations, from sizes and settings alone."""
