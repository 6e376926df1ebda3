"""How much memory each phase of a training held at most, and what is said when there was too little."""
