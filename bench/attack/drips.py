"""Connections that send their bodies byte by byte."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def dripping(address: str, key: str, count: int) -> Iterator[Counter[str]]:
    """Hold connections that send their bodies byte by byte, from one thread."""
    ended = threading.Event()
    host, _, port = address.partition(":")
    head = (
        f"POST /predictions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nContent-Length: 90000000\r\n\r\n"
    ).encode()
    sockets = [socket.create_connection((host, int(port))) for _ in range(count)]

    def drip() -> None:
        while not ended.wait(0.05):
            for each in sockets:
                _trickle(each)

    for each in sockets:
        each.sendall(head)
    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield Counter({"held": count})
    finally:
        ended.set()
        thread.join()
        for each in sockets:
            each.close()


def _trickle(connection: socket.socket) -> None:
    try:
        connection.send(b" ")
    except OSError:
        return  # refused meanwhile, as it should be
