"""The same recipe or plan in another form: merged, minimal, or two steps long."""
