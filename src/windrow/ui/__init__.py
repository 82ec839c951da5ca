"""The dashboard of a running query: live in a browser, as Prometheus metrics, or as an HTML file."""
