"""`grpo-run report`: what run folders tell, as one HTML file that asks nobody for anything."""
