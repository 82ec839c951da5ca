"""`wr.explain` and `wr.allocate`: plan, work, memory and recall of a query before it runs."""
