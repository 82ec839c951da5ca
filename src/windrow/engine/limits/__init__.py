"""Memory limits and deadlines at run time."""
