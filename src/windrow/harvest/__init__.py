"""Deadlines as models and solvers: what to probe when there is no time for everything (GrubJoin)."""
