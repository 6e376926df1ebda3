"""Tools that the policy calls while it answers: loaded as they were planned, called in a process of their own."""
