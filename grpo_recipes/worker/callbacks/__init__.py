"""What the trainer calls while it trains: proofs, guards, figures, evaluation and stops."""
