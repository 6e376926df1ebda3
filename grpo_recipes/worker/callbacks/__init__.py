"""The trainer's callbacks: proofs, guards, figures, evaluation and stops."""
