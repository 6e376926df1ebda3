"""What differs: between plans, between a plan and now, and between releases of TRL."""
