"""Models that memory policies learn from the streams."""
