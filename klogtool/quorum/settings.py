"""What a broker's server.properties says of its quorum: roles, `controller.quorum.voters`, and the servers to ask.

Knows Kafka's checks of these settings (QuorumConfig, KafkaConfig.validateValues), and compares them with what the
metadata log and `quorum-state` say of the voters. Other controllers are not known here: what they decide is no claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec import Struct

from klogtool.broker.config import PROVIDERS, provided_names
from klogtool.broker.releases import Rules
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import parse_java_int
from klogtool.format.kraft_snapshot import Endpoint

BROKER, CONTROLLER = "broker", "controller"
VOTERS, BOOTSTRAP_SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
ROLES = "process.roles"
ZOOKEEPER = "zookeeper.connect"
_REGISTRATION_TIMEOUT = "initial.broker.registration.timeout.ms"
_NODE_IDS = ("node.id", "broker.id")  # the second is its older name
# Settings of type INT, and the lowest value of each (KRaftConfigs, QuorumConfig).
_NUMBERS = {
    **dict.fromkeys(_NODE_IDS, 0),
    _REGISTRATION_TIMEOUT: None,
    "controller.quorum.election.timeout.ms": 0,
    "controller.quorum.fetch.timeout.ms": 0,
    "controller.quorum.election.backoff.max.ms": 0,
    "controller.quorum.append.linger.ms": 0,
    "controller.quorum.request.timeout.ms": 0,
    "controller.quorum.retry.backoff.ms": 0,
}
REGISTRATION_TIMEOUT_MS = 60_000
_COMMAS = re.compile(r"\s*,\s*")
_HOST_PORT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)  # Utils
_NO_ADDRESS = "0.0.0.0"  # QuorumConfig.NON_ROUTABLE_HOST
ANY_HOST = ("", _NO_ADDRESS, "::")  # a listener on all addresses
_LOOPBACK = "127.0.0.1"  # Java asks for IPv4 first


_CONTROLLER_LISTENERS = "controller.listener.names"
_LISTENERS = (_CONTROLLER_LISTENERS, "listeners", "advertised.listeners")
_QUORUM = (ROLES, VOTERS, BOOTSTRAP_SERVERS, *_LISTENERS, *_NUMBERS)
_USED = (*_QUORUM, ZOOKEEPER, PROVIDERS)


def used_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that QuorumSettings reads. The others of a file may have secrets, and belong in no plan."""
    return {name: value for name, value in settings.items() if name in _USED}


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
        provided = provided_names(settings)
        if ROLES not in provided:
            _check_roles(settings, rules)
        roles = frozenset(listed(settings, ROLES))
        if not roles or not provided.isdisjoint(_QUORUM):
            return None
        numbers = _numbers(settings)
        if len({numbers[name] for name in _NODE_IDS if name in numbers}) > 1:
            raise _wrong("You must set `node.id` to the same value as `broker.id`.")
        voters = dict(map(_voter, listed(settings, VOTERS)))
        servers = tuple(_server(text) for text in listed(settings, BOOTSTRAP_SERVERS))
        # Where others reach the controller (KafkaConfig.effectiveAdvertisedControllerListeners).
        advertised = {endpoint.name: endpoint for endpoint in _listeners(settings, "advertised.listeners")}
        result = cls(
            next((numbers[name] for name in _NODE_IDS if name in numbers), None),
            roles,
            voters,
            servers if rules.has_dynamic_quorum else (),
            tuple(advertised.get(endpoint.name, endpoint) for endpoint in _bound(settings)),
            numbers.get(_REGISTRATION_TIMEOUT, REGISTRATION_TIMEOUT_MS),
            tuple(_bound(settings)),
            next((name.upper() for name in listed(settings, _CONTROLLER_LISTENERS)), None),
        )
        result.check(rules)
        return result

    def check(self, rules: Rules) -> None:
        """Raise KlogError for what KafkaConfig.validateValues and KafkaRaftServer refuse."""
        if not self.voters and not self.servers:
            needed = (
                f"either {BOOTSTRAP_SERVERS} must contain the set of bootstrap controllers or {VOTERS} must contain a "
                "parseable set of controllers."
                if rules.has_dynamic_quorum
                else f"{VOTERS} must contain a parseable set of voters."
            )
            raise _wrong(f"If using {ROLES}, {needed}")
        names = f"{VOTERS}=Set({', '.join(map(str, sorted(self.voters)))})"
        if self.roles == {BROKER} and self.node_id in self.voters:
            raise _required(
                f"If {ROLES} contains just the 'broker' role, the node id {self.node_id} must not be included in the "
                f"set of voters {names}"
            )
        if self.is_controller and self.node_id is not None and self.voters and self.node_id not in self.voters:
            raise _required(
                f"If {ROLES} contains the 'controller' role, the node id {self.node_id} must be included in the set of "
                f"voters {names}"
            )
        if any(address.host == _NO_ADDRESS for address in self.voters.values()):
            raise _wrong(f"Host string ({_NO_ADDRESS}) is not routeable")


def listed(settings: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the values of a setting that is a list (ConfigDef.Type.LIST); an empty value stays one."""
    text = settings.get(name, "").strip()
    return tuple(_COMMAS.split(text)) if text else ()


def find_node_id(settings: Mapping[str, str]) -> str | None:
    """Return the text of node.id, or of its older name; None also if a config provider has it."""
    key = next((key for key in _NODE_IDS if key in settings), None)
    return None if key is None or key in provided_names(settings) else settings[key].strip()


def _check_roles(settings: Mapping[str, str], rules: Rules) -> None:
    """Raise KlogError for roles that no process has. Without them a release with ZooKeeper asks that. A file that has
    neither may be a part of the settings."""
    roles = listed(settings, ROLES)
    if ROLES in settings and not roles and rules.checks_lists:
        raise _wrong(f"Configuration '{ROLES}' must not be empty. Valid values include: [{BROKER}, {CONTROLLER}]")
    if ROLES not in settings and ZOOKEEPER in settings and not rules.has_zookeeper:
        raise _wrong(f'Missing required configuration "{ROLES}" which has no default value.')
    if (wrong := next((role for role in roles if role not in (BROKER, CONTROLLER)), None)) is not None:
        raise _invalid(ROLES, wrong, f"String must be one of: {BROKER}, {CONTROLLER}")


def _numbers(settings: Mapping[str, str]) -> dict[str, int]:
    """Parse the settings that are numbers (ConfigDef.parseType, ConfigDef.Range)."""
    numbers = {}
    for name, low in _NUMBERS.items():
        if name not in settings:
            continue
        try:
            numbers[name] = parse_java_int(settings[name].strip())
        except Corrupt:
            raise _invalid(name, settings[name], "Not a number of type INT") from None
        if low is not None and numbers[name] < low:
            raise _invalid(name, str(numbers[name]), f"Value must be at least {low}")
    return numbers


def _voter(text: str) -> tuple[int, Endpoint]:
    """Parse `ID@HOST:PORT` (QuorumConfig.parseVoterConnections)."""
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    number, *rest = re.sub("@+$", "", text).split("@")  # String.split leaves out empty texts at the end
    if len(rest) != 1:
        raise _wrong(f"Invalid configuration value for {VOTERS}. {form}")
    try:
        node_id = parse_java_int(number)
    except Corrupt:
        raise _wrong(f"Failed to parse voter ID as an integer from {number}") from None
    address = _address(rest[0])
    if address is None:
        raise _wrong(f"Failed to parse host name from entry {text} for the configuration {VOTERS}. {form}")
    return node_id, address


def _server(text: str) -> Endpoint:
    """Parse `HOST:PORT` (QuorumConfig.parseBootstrapServer)."""
    address = _address(text)
    if address is None:
        raise _wrong(
            f"Failed to parse host name from {text} for the configuration {BOOTSTRAP_SERVERS}. Each entry should be in "
            'the form "{host}:{port}"'
        )
    return address


def _address(text: str, name: str = "") -> Endpoint | None:
    """Parse as Utils.getHost and Utils.getPort; None if Kafka would refuse it."""
    match = _HOST_PORT.fullmatch(text)
    try:
        return None if match is None else Endpoint(name, match[1], parse_java_int(match[2]))
    except Corrupt:
        return None


def _bound(settings: Mapping[str, str]) -> Iterator[Endpoint]:
    names = {name.upper() for name in listed(settings, _CONTROLLER_LISTENERS)}
    return (endpoint for endpoint in _listeners(settings, "listeners") if endpoint.name in names)


def _listeners(settings: Mapping[str, str], key: str) -> Iterator[Endpoint]:
    for listener in listed(settings, key):
        name, _, address = listener.partition("://")
        parsed = _address(address, name.upper())
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


def _invalid(name: str, value: str, why: str) -> KlogError:
    return _wrong(f"Invalid value {value} for configuration {name}: {why}")


def _wrong(message: str) -> KlogError:
    return KlogError(message, kafka_class="ConfigException")


def _required(message: str) -> KlogError:
    return KlogError(f"requirement failed: {message}", kafka_class="IllegalArgumentException")
