"""What several rules ask; none of it is a rule."""
