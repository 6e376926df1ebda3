"""Where a completion ends, by which token or text, and what that says of it."""
