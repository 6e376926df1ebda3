"""Many run folders beside each other: what is read of each, which are shown, and the table of them."""
