"""Network addresses that connectors may connect to. Pure.

A web page can name any host, and any name can resolve to any address. That may be a router's settings, a
database without a password, or a cloud's metadata service (169.254.169.254). So an address that is not public
is refused unless the config allows it. IPv6 addresses that carry an IPv4 address are judged by the IPv4
address. The ranges are those of IANA's special-purpose registries (RFC 6890), listed here because
``is_global`` differs between versions of Python.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, texts))


# Private networks, where a host name in ``allow_private`` suffices.
_INSIDE = _networks(
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8"),
    *("::1/128", "fc00::/7"),
)
# Also this network, link-local, protocols, documentation, relays, benchmarks, multicast and reserved.
_CLOSED = _INSIDE + _networks(
    *("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15"),
    *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    *("2001::/23", "2001:db8::/32", "3fff::/20"),
)
_PUBLIC_6 = IPv6Network("2000::/3")  # all of IPv6 that is global unicast
_LAST_FOUR = _networks(
    "::ffff:0:0/96", "64:ff9b::/96", "::ffff:0:0:0/96", "::/96"
)  # mapped, NAT64, SIIT, old
_6TO4 = IPv6Network("2002::/16")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hosts and networks that are not public, but that the config allows.

    ``names``: host names in lower case.
    """

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()


def parse_allowed(entries: Sequence[str]) -> Allowed:
    """Parse host names, addresses and networks such as ``10.1.0.0/16``. Raises ValueError."""
    names, networks = set[str](), list[Network]()
    for entry in entries:
        try:
            networks.append(ip_network(entry))
        except ValueError:
            if not entry or "/" in entry or ":" in entry or entry.replace(".", "").isdigit():
                raise ValueError(
                    f"{entry!r} is neither a host's name nor a network such as 10.1.0.0/16"
                ) from None
            names.add(entry.lower().rstrip("."))
    return Allowed(frozenset(names), tuple(networks))


def may_connect(host: str, address: str, allowed: Allowed) -> bool:
    """Return whether a connection to an address is allowed.

    ``host``: the name that resolved to the address.
    """
    given = ip_address(address)
    inner = _unwrap(given)
    if any(_lies_in(each, network) for network in allowed.networks for each in (given, inner)):
        return True
    if host in allowed.names and any(_lies_in(inner, network) for network in _INSIDE):
        return True
    return is_public(address)


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet."""
    inner = _unwrap(ip_address(address))
    if isinstance(inner, IPv6Address) and inner not in _PUBLIC_6:
        return False
    return not any(_lies_in(inner, network) for network in _CLOSED)


def _unwrap(address: Address) -> Address:
    """Return the IPv4 address in an IPv6 address such as ``::ffff:10.0.0.1``, or else the address."""
    if not isinstance(address, IPv6Address) or address == IPv6Address("::1"):
        return address
    number = int(address)
    if any(_lies_in(address, network) for network in _LAST_FOUR):
        return IPv4Address(number & 0xFFFF_FFFF)
    if address in _6TO4:
        return IPv4Address(number >> 80 & 0xFFFF_FFFF)
    return address


def _lies_in(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network
