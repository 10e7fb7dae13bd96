"""A network namespace with loopback alone: Ray listens on all interfaces, whatever it is told."""

import ctypes
import fcntl
import os
import socket
import struct

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP_AND_RUNNING = 0x1 | 0x40


def interfaces() -> list[str]:
    """The names of this process's network interfaces."""
    return sorted(name for _, name in socket.if_nameindex())


def leave_networks() -> None:
    """Move this process, and all that it starts, into a namespace with loopback alone.

    Raises:
        OSError: the kernel, or a container, does not allow it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))
