"""Many run folders: what is read from each, which are shown, and their table."""
