"""Ports of this machine. Nothing here connects: who does not accept has its port, too."""

from __future__ import annotations

import errno
import socket


def free_port(host: str) -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def no_address(host: str) -> str:
    """Why nothing can listen on that address of this machine; empty: something can."""
    try:
        free_port(host)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def port_taken(host: str, port: int) -> bool:
    """Whether somebody listens there already. Connections that are only fading do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
