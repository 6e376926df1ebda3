"""Rules: one file each, named by the truth it defends."""
