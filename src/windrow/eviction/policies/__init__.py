"""Memory policies at run time: one ranking each."""
