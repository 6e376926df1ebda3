"""What validate may read of the user's own data, model and rewards; nothing of it is run."""
