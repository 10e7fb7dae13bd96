"""Which addresses a host may be reached at."""

import contextlib
import ipaddress
import re
import socket
from collections.abc import Sequence

from AntiSSRF import IPAddressRanges  # type: ignore[import-untyped]

from cog_adapt.server.errors import ConfigError, InputError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# the last part of a name is not a number: such a "name" is an address in an odd spelling
_NAME = re.compile(r"(\*\.)?([a-z0-9_-]+\.)*(?!0x|[0-9]+$)[a-z0-9_-]+", re.ASCII)
# other ranges hold addresses of IPv4 in disguise, or are not assigned
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_REFUSED: list[tuple[str, _Network]] = [
    (name.replace("_", " "), ipaddress.ip_network(network))
    for name, networks in vars(IPAddressRanges).items()
    if not name.startswith(("_", "recommended"))
    for network in networks
] + [("reserved", ipaddress.ip_network(each)) for each in IPAddressRanges.recommended_latest]


class EgressError(InputError):
    """A caller's URL leads where the server does not go."""


class AddressRules:
    """Every public address may be reached, and what the operator allows.

    Args:
        allow: networks such as 10.1.0.0/16, single addresses, and host names; `*.example.org`
            stands for every name below example.org.

    Raises:
        ConfigError: an entry is none of these.
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
        """The addresses that a connection to the host may be made to, best first.

        Raises:
            EgressError: it has none.
            OSError: it has no address at all.
        """
        return self._choose(host, _resolve(host, port))

    def check_number(self, host: str) -> None:
        """Refuse a host that is an address in any spelling; names are not resolved.

        Raises:
            EgressError: it is one, and not reached.
        """
        with contextlib.suppress(OSError):
            self._choose(host, _resolve(host, 0, socket.AI_NUMERICHOST))

    def _choose(self, host: str, addresses: list[Address]) -> list[str]:
        if self._is_allowed_by_name(host):
            return [str(address) for address in addresses]
        open_to_callers = [str(each) for each in addresses if self._refusal(each) is None]
        if not open_to_callers:
            first = addresses[0]
            raise EgressError(
                f"{host!r} is not reached for a caller: its address {first} is not public "
                f"({self._refusal(first)}). The operator can allow it: EGRESS_ALLOW={first}"
            )
        return open_to_callers

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
