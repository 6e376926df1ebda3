"""What is known of a run after it began: its run.json."""
