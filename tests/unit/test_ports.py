"""Which ports are free, without connecting to whoever has them."""

from __future__ import annotations

import socket

from eagle_tui.ports import free_port, port_taken

HOST = "127.0.0.1"


def test_a_listener_that_never_accepts_has_its_port() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:  # its backlog is full: a further connection would hang
            one.setblocking(False)
            one.connect_ex((HOST, port))
        assert port_taken(HOST, port)
        for one in waiting:
            one.close()
    assert not port_taken(HOST, port)


def test_connections_that_fade_do_not_hold_a_port() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as every server does
        listener.bind((HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection((HOST, port)):
            taken, _ = listener.accept()
            taken.close()  # the side that closes first keeps the address for a minute
    assert not port_taken(HOST, port)


def test_a_free_port_is_free() -> None:
    assert not port_taken(HOST, free_port(HOST))
