"""`wr.explain` and `wr.allocate`: what a query will do, before it runs."""
