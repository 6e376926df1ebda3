"""What a run leaves and goes on from: checkpoints, models, and its record."""
