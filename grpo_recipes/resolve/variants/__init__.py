"""A recipe or a plan in another form: merged, minimal, or two steps long."""
