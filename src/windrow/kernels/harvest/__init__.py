"""Kernels of the harvest solvers."""
