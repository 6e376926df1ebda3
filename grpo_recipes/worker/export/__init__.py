"""What was trained, as a folder that is handed over, with the proof that it is what was trained."""
