"""What commands say of what a run trained."""
