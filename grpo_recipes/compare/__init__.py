"""Finds differences between plans, between a plan and the present, and between releases of TRL."""
