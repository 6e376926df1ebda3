"""Tools that the policy calls while it generates: loaded as planned, run in a separate process."""
