"""Files of a run folder as a stranger may have left them: opened, locked, read and written within limits."""
