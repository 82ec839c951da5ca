"""The page: what a running query does, live in a browser, for Prometheus, or as a file."""
