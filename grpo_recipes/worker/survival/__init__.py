"""What keeps a run from hanging, and what it says and leaves when it has to end."""
