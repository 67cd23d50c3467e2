"""Download of a file from a URL that a client sends, without access to the server's own network (SSRF)."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from realtime_tts.errors import InvalidConfig

IPAddress: TypeAlias = IPv4Address | IPv6Address

GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_URL_CHARS = 2048


def is_public_address(address: IPAddress) -> bool:
    """Whether the address is on the public Internet.  An IPv4 address inside an IPv6 one is the one that counts."""
    if isinstance(address, IPv4Address):
        return address.is_global and not (address.is_multicast or address.is_reserved)
    if address.ipv4_mapped is not None:
        return is_public_address(address.ipv4_mapped)
    if address in NAT64:
        return is_public_address(IPv4Address(address.packed[12:]))
    if address.sixtofour is not None:
        return False  # the other end of a 6to4 tunnel may be anywhere
    return address in GLOBAL_UNICAST and address.is_global


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    schemes: frozenset[str] = frozenset({"https"})
    """Allowed schemes."""
    ports: frozenset[int] | None = frozenset({80, 443})
    """Allowed ports; None allows all."""
    is_allowed: Callable[[IPAddress], bool] = field(default=is_public_address)
    max_bytes: int = 10 * 1024 * 1024
    timeout_s: float = 15.0
    """Limit of the whole download, with name resolution and redirects."""
    max_redirects: int = 3


class AddressRefused(OSError):
    """A name has an address that is not allowed."""


class CheckedResolver(AbstractResolver):
    """Resolves a name once, and checks its addresses.  The connection goes to these, so DNS rebinding has no effect."""

    def __init__(self, resolver: AbstractResolver, is_allowed: Callable[[IPAddress], bool]) -> None:
        self._resolver = resolver
        self._is_allowed = is_allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        results = await self._resolver.resolve(host, port, family)
        for result in results:
            # One address that is not allowed is enough to refuse: aiohttp chooses which one it connects to.
            if not self._is_allowed(ipaddress.ip_address(result["host"])):
                raise AddressRefused(f"{host} is not on the open Internet")
        return results

    async def close(self) -> None:
        await self._resolver.close()


async def fetch(url: str, policy: FetchPolicy, resolver: AbstractResolver) -> bytes:
    """The bytes of the file.  The Content-Type is ignored: the decoder detects the format.

    Raises `InvalidConfig`.  Its message does not disclose what is inside the server's own network.
    """
    checked = CheckedResolver(resolver, policy.is_allowed)
    connector = aiohttp.TCPConnector(resolver=checked, use_dns_cache=False, force_close=True)
    try:
        async with (
            asyncio.timeout(policy.timeout_s),
            aiohttp.ClientSession(
                connector=connector,
                trust_env=False,  # a proxy would resolve the name again, unchecked
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # a small response could decompress to a large one
                headers={"Accept-Encoding": "identity"},
            ) as session,
        ):
            return await _follow(session, _parsed(url), policy)
    except TimeoutError:
        raise InvalidConfig(f"the URL did not return its file within {policy.timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError):
        # One message for a refused, a closed and an unknown address: otherwise clients could scan ports through us.
        raise InvalidConfig("the URL's server cannot be reached, or may not be") from None
    finally:
        await checked.close()


async def _follow(session: aiohttp.ClientSession, url: URL, policy: FetchPolicy) -> bytes:
    for _hop in range(policy.max_redirects + 1):
        _check(url, policy)
        async with session.get(url, allow_redirects=False) as response:
            if response.status in REDIRECTS and "Location" in response.headers:
                url = url.join(_parsed(response.headers["Location"]))
                continue
            if response.status != 200:
                raise InvalidConfig(f"the URL answers with status {response.status}")
            return await _read(response, policy.max_bytes)
    raise InvalidConfig(f"the URL redirects more than {policy.max_redirects} times")


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > max_bytes:
            raise InvalidConfig(f"the URL's file has more than {max_bytes} bytes")
    return bytes(data)


def _parsed(text: str) -> URL:
    if len(text) > MAX_URL_CHARS:
        raise InvalidConfig(f"a URL may have {MAX_URL_CHARS} characters, this has {len(text)}")
    try:
        return URL(text)
    except ValueError:
        raise InvalidConfig("the URL is malformed") from None


def _check(url: URL, policy: FetchPolicy) -> None:
    """Checks that need no name resolution.  Raises `InvalidConfig`."""
    if url.scheme not in policy.schemes:
        raise InvalidConfig(f"only {' and '.join(sorted(policy.schemes))} URLs may be fetched")
    if not url.raw_host:
        raise InvalidConfig("the URL is malformed")
    if url.user is not None or url.password is not None:
        raise InvalidConfig("a URL with a user or a password is not fetched")
    if policy.ports is not None and url.port not in policy.ports:
        raise InvalidConfig(f"port {url.port} may not be fetched from")
    try:
        address = ipaddress.ip_address(url.raw_host or "")  # aiohttp does not pass addresses to the resolver
    except ValueError:
        return  # a name, or an unusual form of an address such as 0x7f.1, which goes through the resolver
    if not policy.is_allowed(address):
        raise AddressRefused("not on the open Internet")
