"""What every part of a taking-over asks: the file as it is given, the release and machine it is for, the draft."""
