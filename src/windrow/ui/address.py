"""The address of a dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.errors import Option, QueryError

LOOPBACK = "127.0.0.1"
PAGE = Option(section="page")


@dataclass(frozen=True)
class Address:
    """
    Parameters
    ----------
    port
        0 for any free port.
    host
        The interface to listen on. By default loopback, so that only this machine has access.
    """

    port: int
    host: str = LOOPBACK

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise QueryError(f"expected a port from 0 (any free port) to 65535, got {self.port}", PAGE)
