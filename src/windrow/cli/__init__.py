"""The command line: one module per command."""

from windrow.cli.commands import app, main

__all__ = ["app", "main"]
