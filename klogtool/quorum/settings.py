"""What a broker's server.properties says of its quorum: roles, `controller.quorum.voters`, and the servers to ask.

Knows Kafka's checks of these settings (QuorumConfig, KafkaConfig.validateValues), and compares them with what the
metadata log and `quorum-state` say of the voters. Other controllers are not known here: what they decide is no claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec import Struct

from klogtool.broker.config import PROVIDERS, provided_names
from klogtool.broker.releases import Rules
from klogtool.broker.server_listeners import (
    ADVERTISED,
    BOOTSTRAP_SERVERS,
    LISTENERS,
    NO_ADDRESS,
    VOTERS,
    parse_address,
    parse_servers,
    parse_voters,
)
from klogtool.broker.server_rules import CONTROLLER, find_refusals, is_asked_for
from klogtool.broker.server_settings import BROKER_ID, CONTROLLER_LISTENERS, NODE_ID, ROLES, ServerConfig, listed
from klogtool.format.kraft_snapshot import Endpoint

_REGISTRATION_TIMEOUT = "initial.broker.registration.timeout.ms"
REGISTRATION_TIMEOUT_MS = 60_000
ANY_HOST = ("", NO_ADDRESS, "::")  # a listener on all addresses
_LOOPBACK = "127.0.0.1"  # Java asks for IPv4 first
_NODE_IDS = (NODE_ID, BROKER_ID)  # the second is its older name
OF_QUORUM = (
    *_NODE_IDS,
    ROLES,
    VOTERS,
    BOOTSTRAP_SERVERS,
    CONTROLLER_LISTENERS,
    LISTENERS,
    ADVERTISED,
    _REGISTRATION_TIMEOUT,
)


def used_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that QuorumSettings reads. The others of a file may have secrets, and belong in no plan."""
    return {name: value for name, value in settings.items() if name == PROVIDERS or is_asked_for(name)}


class QuorumSettings(Struct, frozen=True):
    """The settings of a file that has `process.roles`. voters: endpoints by node id. servers: bootstrap servers; always
    empty for a release without dynamic quorums. endpoints: those of the controller, as it tells others; bound: where
    its sockets are. listener: at which it looks for other controllers.

    registration_timeout_ms: how long a broker asks to be registered before it ends (BrokerLifecycleManager)."""

    node_id: int | None
    roles: frozenset[str]
    voters: dict[int, Endpoint]
    servers: tuple[Endpoint, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    registration_timeout_ms: int = REGISTRATION_TIMEOUT_MS
    bound: tuple[Endpoint, ...] = ()
    listener: str | None = None

    @property
    def is_controller(self) -> bool:
        """Return whether the process is a controller, with or without a broker."""
        return CONTROLLER in self.roles

    @classmethod
    def of(cls, settings: Mapping[str, str], rules: Rules) -> QuorumSettings | None:
        """Read the settings as the release does; None if they do not say which roles the process has, or have values
        of a config provider, which nobody knows here. Raises KlogError where the process would end."""
        if refused := find_refusals(settings, rules):
            raise refused[0]
        if not listed(settings, ROLES) or not provided_names(settings).isdisjoint(OF_QUORUM):
            return None
        config = ServerConfig(settings, rules)
        node_id, timeout = config.number(NODE_ID), config.number(_REGISTRATION_TIMEOUT)
        # Where others reach the controller (KafkaConfig.effectiveAdvertisedControllerListeners).
        advertised = {endpoint.name: endpoint for endpoint in _listeners(settings, ADVERTISED)}
        return cls(
            None if node_id is None else int(node_id),
            config.roles,
            parse_voters(config),
            parse_servers(config),
            tuple(advertised.get(endpoint.name, endpoint) for endpoint in _bound(settings)),
            REGISTRATION_TIMEOUT_MS if timeout is None else int(timeout),
            tuple(_bound(settings)),
            next((name.upper() for name in config.controller_names), None),
        )


def find_node_id(settings: Mapping[str, str]) -> str | None:
    """Return the text of node.id, or of its older name; None also if a config provider has it."""
    key = next((key for key in _NODE_IDS if key in settings), None)
    return None if key is None or key in provided_names(settings) else settings[key].strip()


def _bound(settings: Mapping[str, str]) -> Iterator[Endpoint]:
    names = {name.upper() for name in listed(settings, CONTROLLER_LISTENERS)}
    return (endpoint for endpoint in _listeners(settings, LISTENERS) if endpoint.name in names)


def _listeners(settings: Mapping[str, str], key: str) -> Iterator[Endpoint]:
    for listener in listed(settings, key):
        name, _, address = listener.partition("://")
        parsed = parse_address(address, name.upper())
        if parsed is not None:
            yield parsed


def is_same_host(known: str, own: str) -> bool | None:
    """Return whether a node that listens at `own` is reached at `known`; None if the names do not tell: two names, or a
    name and an address, may be one host."""
    if own in ANY_HOST or known.lower() == own.lower():
        return True
    addresses = _ip(known), _ip(own)
    return addresses[0] == addresses[1] if None not in addresses else None


def is_loopback(host: str) -> bool:
    """Return whether it is an address of every host by itself."""
    address = _ip(host)
    return address is not None and address.is_loopback


def is_name(host: str) -> bool:
    """Return whether a node has to resolve it, so that it is no address, and not `localhost` either."""
    return host not in ANY_HOST and _ip(host) is None


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(_LOOPBACK if host.lower() == "localhost" else host)
    except ValueError:
        return None
