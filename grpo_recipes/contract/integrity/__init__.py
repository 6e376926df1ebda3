"""What tells that a run folder is as it was written, and by whom; the standard library is all that it needs."""
