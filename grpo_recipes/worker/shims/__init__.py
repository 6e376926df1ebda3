"""Small named patches for defects of released stacks, applied only when the plan names them."""
