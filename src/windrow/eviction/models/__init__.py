"""What memory policies learn from the streams."""
