"""plan.json as a lock: read again, compared with what there is now, and launched as it is."""
