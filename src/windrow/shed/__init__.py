"""What to give up when the windows may not hold everything."""
