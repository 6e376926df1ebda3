"""Uses plan.json as a lock: reads it, compares it with the present, and launches it unchanged."""
