"""Decides which addresses the server may connect to for a caller."""

import contextlib
import ipaddress
import re
import socket
from collections.abc import Sequence

from AntiSSRF import IPAddressRanges  # type: ignore[import-untyped]

from cog_adapt.server.errors import ConfigError, InputError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# a name with a number as its last part is an unusual spelling of an address
_NAME = re.compile(r"(\*\.)?([a-z0-9_-]+\.)*(?!0x|[0-9]+$)[a-z0-9_-]+", re.ASCII)
# other ranges contain disguised IPv4 addresses, or are not assigned
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_REFUSED: list[tuple[str, _Network]] = [
    (name.replace("_", " "), ipaddress.ip_network(network))
    for name, networks in vars(IPAddressRanges).items()
    if not name.startswith(("_", "recommended"))
    for network in networks
] + [("reserved", ipaddress.ip_network(each)) for each in IPAddressRanges.recommended_latest]


class EgressError(InputError):
    """A caller's URL leads to an address that the server does not connect to."""


class AddressRules:
    """Allows every public address, and those that the operator names.

    Args:
        allow: networks such as 10.1.0.0/16, single addresses, and host names; `*.example.org`
            stands for every name below example.org.

    Raises:
        ConfigError: an entry has none of these forms.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._networks: list[_Network] = []
        self._names: list[str] = []
        for entry in allow:
            self._add(entry.lower().rstrip("."))

    def _add(self, entry: str) -> None:
        try:
            self._networks.append(ipaddress.ip_network(entry))
        except ValueError as error:
            if not _NAME.fullmatch(entry):
                raise ConfigError(
                    f"EGRESS_ALLOW contains {entry!r}, which is neither a network (10.1.0.0/16), "
                    "an address, nor a host name (files.internal, *.example.org)"
                ) from error
            self._names.append(entry)

    def find_addresses(self, host: str, port: int) -> list[str]:
        """Return the allowed addresses of a host, best first.

        Raises:
            EgressError: no address of the host is allowed.
            OSError: the host has no address at all.
        """
        return self._choose(host, _resolve(host, port))

    def check_number(self, host: str) -> None:
        """Refuse a host that is a forbidden address in any spelling; resolve no names.

        Raises:
            EgressError: the host is a forbidden address.
        """
        with contextlib.suppress(OSError):
            self._choose(host, _resolve(host, 0, socket.AI_NUMERICHOST))

    def _choose(self, host: str, addresses: list[Address]) -> list[str]:
        if self._is_allowed_by_name(host):
            return [str(address) for address in addresses]
        open_to_callers = [str(each) for each in addresses if self._refusal(each) is None]
        if not open_to_callers:
            raise EgressError(self._words_about(host, addresses[0]))
        return open_to_callers

    def _words_about(self, host: str, address: Address) -> str:
        """Return why a host is refused, without its addresses: these are private."""
        what, remedy = "its address is not public", host
        if not _NAME.fullmatch(host.lower()):
            what = f"its address {address} is not public ({self._refusal(address)})"
            remedy = str(address)
        return (
            f"{host!r} is not reached for a caller: {what}. "
            f"The operator can allow it: EGRESS_ALLOW={remedy}"
        )

    def _is_allowed_by_name(self, host: str) -> bool:
        host = host.lower().rstrip(".")
        return any(
            host.endswith(name[1:]) if name.startswith("*.") else host == name
            for name in self._names
        )

    def _refusal(self, address: Address) -> str | None:
        if any(address in network for network in self._networks):
            return None
        for name, network in _REFUSED:
            if address in network:
                return name
        if address.version == 6 and address not in _GLOBAL_UNICAST:
            return "not global unicast"
        return None


def _resolve(host: str, port: int, flags: int = 0) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:
        raise OSError(f"{host!r} is not a host name") from error
    addresses = [ipaddress.ip_address(answer[4][0]) for answer in found]
    return [getattr(each, "ipv4_mapped", None) or each for each in addresses]


def without_value(error: Exception) -> str:
    """Return a URL's fault without the faulty part: it may hold a secret."""
    return str(error).partition(": '")[0]
