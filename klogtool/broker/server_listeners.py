"""Where a process listens, and whom it asks, by its settings: listeners, their protocols, voters, bootstrap servers.

Kafka's AbstractKafkaConfig, SocketServerConfigs and QuorumConfig, in their words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, ip_address
from itertools import groupby
from typing import NoReturn

from klogtool.broker.causes import ListenerRefusal
from klogtool.broker.server_settings import ServerConfig, SettingRefused
from klogtool.causes import Reason, Text
from klogtool.errors import Corrupt
from klogtool.format.java_numbers import parse_java_int
from klogtool.format.kraft_snapshot import Endpoint

VOTERS, BOOTSTRAP_SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
LISTENERS, ADVERTISED = "listeners", "advertised.listeners"
PROTOCOL_MAP = "listener.security.protocol.map"
BETWEEN_BROKERS, BROKERS_PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"
NO_ADDRESS = "0.0.0.0"  # QuorumConfig.NON_ROUTABLE_HOST
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")  # SecurityProtocol
_PLAINTEXT = _PROTOCOLS[0]
_DEFAULT_LISTENERS = "PLAINTEXT://:9092"
_HOST_PORT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)  # Utils
_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)", re.ASCII)  # SocketServerConfigs


def parse_voters(config: ServerConfig) -> dict[int, Endpoint]:
    """Return the voters (QuorumConfig.parseVoterConnections)."""
    return dict(map(_voter, config.words(VOTERS)))


def parse_servers(config: ServerConfig) -> tuple[Endpoint, ...]:
    """Return the bootstrap servers; none for a release without dynamic quorums."""
    return tuple(map(_server, config.words(BOOTSTRAP_SERVERS))) if config.rules.has_dynamic_quorum else ()


def parse_address(text: str, name: str = "") -> Endpoint | None:
    """Parse as Utils.getHost and Utils.getPort; None if Kafka would refuse it."""
    match = _HOST_PORT.fullmatch(text)
    try:
        return None if match is None else Endpoint(name, match[1], parse_java_int(match[2]))
    except Corrupt:
        return None


def _voter(text: str) -> tuple[int, Endpoint]:
    number, *rest = re.sub("@+$", "", text).split("@")  # String.split leaves out empty texts at the end
    if len(rest) != 1:
        raise SettingRefused(VOTERS, ListenerRefusal.NO_VOTER())
    try:
        node_id = parse_java_int(number)
    except Corrupt:
        raise SettingRefused(VOTERS, ListenerRefusal.NO_VOTER_ID(text=number)) from None
    address = parse_address(rest[0])
    if address is None:
        raise SettingRefused(VOTERS, ListenerRefusal.NO_VOTER_HOST(text=text))
    return node_id, address


def _server(text: str) -> Endpoint:
    """Parse `HOST:PORT` (QuorumConfig.parseBootstrapServer)."""
    address = parse_address(text)
    if address is None:
        raise SettingRefused(BOOTSTRAP_SERVERS, ListenerRefusal.NO_SERVER(text=text))
    return address


def protocols_of(config: ServerConfig) -> dict[str, str]:
    """Return the protocol of each name of a listener (AbstractKafkaConfig.effectiveListenerSecurityProtocolMap)."""
    protocols = dict(zip(_PROTOCOLS, _PROTOCOLS, strict=True))
    if config.has(PROTOCOL_MAP):
        return {name.upper(): _protocol(value, PROTOCOL_MAP) for name, value in _pairs(config)}
    own, secure = config.controller_names, frozenset(_PROTOCOLS[1:])
    listeners = config.words(LISTENERS, _DEFAULT_LISTENERS)
    if (without := next((text for text in listeners if ":" not in text), None)) and secure.isdisjoint(own):
        raise SettingRefused(LISTENERS, ListenerRefusal.NO_NAME(text=without), "KafkaException")
    if secure.isdisjoint(own) and secure.isdisjoint(text.partition(":")[0].upper() for text in listeners):
        protocols |= dict.fromkeys(own, _PLAINTEXT)
    return protocols


def _pairs(config: ServerConfig) -> Iterator[tuple[str, str]]:
    """Csv.parseCsvMap."""
    text = config.text(PROTOCOL_MAP)
    for word in re.split(r"\s*,\s*", re.sub(r"(\s*,\s*)+$", "", text)) if text else ():
        name, colon, value = word.rpartition(":")
        if not colon:
            raise SettingRefused(PROTOCOL_MAP, ListenerRefusal.NO_PAIR(length=len(word)), "IllegalArgumentException")
        yield name.strip(), value.strip()


def _protocol(text: str, name: str) -> str:
    if text.upper() not in _PROTOCOLS:
        raise SettingRefused(name, ListenerRefusal.NO_PROTOCOL(text=text, name=name))
    return text.upper()


def listeners_of(config: ServerConfig, name: str = LISTENERS) -> list[Endpoint]:
    """Return the endpoints of a list of listeners (AbstractKafkaConfig.listenerListToEndPoints)."""
    protocols, texts = protocols_of(config), config.words(name, _DEFAULT_LISTENERS if name == LISTENERS else "")
    if not config.rules.checks_lists:
        texts = tuple(filter(None, texts))
    shown = f"[{', '.join(texts)}]" if config.rules.checks_lists else config.text(name)

    def refuse(why: Text) -> NoReturn:
        raise SettingRefused(name, ListenerRefusal.NO_LISTENERS(shown=shown, why=why), "IllegalArgumentException")

    endpoints = []
    for text in texts:
        match = _LISTENER.fullmatch(text)
        if match is None:
            refuse(ListenerRefusal.NO_ENDPOINT(text=text))
        try:
            port = parse_java_int(match[3])
        except Corrupt as error:
            refuse(error.reason)
        if (listener := match[1].upper()) not in protocols:
            refuse(ListenerRefusal.UNKNOWN_PROTOCOL(listener=listener))
        endpoints.append(Endpoint(listener, match[2], port))
    if len({endpoint.name for endpoint in endpoints}) < len(endpoints):
        refuse(ListenerRefusal.SAME_NAME(shown=shown))
    if name == LISTENERS and (wrong := _same_port(endpoints, shown)):
        refuse(wrong)
    return endpoints


def _same_port(endpoints: Sequence[Endpoint], shown: str) -> Reason | None:
    """Return why listeners cannot have one port (AbstractKafkaConfig.validate); None if each has its own, or two have
    addresses of both kinds."""
    bound = sorted((endpoint for endpoint in endpoints if endpoint.port), key=lambda endpoint: endpoint.port)
    for port, group in groupby(bound, key=lambda endpoint: endpoint.port):
        kinds = [_kind(endpoint.host) for endpoint in group]
        if len(kinds) < 2:
            continue
        if kinds.count("") > 1:
            return ListenerRefusal.SAME_PORT(shown=shown)
        if sum(map(bool, kinds)) == 2:
            if sorted(kinds) != ["4", "6"]:
                return ListenerRefusal.OF_ONE_KIND(shown=shown, port=port)
        else:
            return ListenerRefusal.SHARED_PORT(shown=shown, port=port)
    return None


def _kind(host: str) -> str:
    try:
        return "4" if isinstance(ip_address(host), IPv4Address) else "6"
    except ValueError:
        return ""


def advertised_of(config: ServerConfig) -> list[Endpoint]:
    """Return the endpoints that clients see (KafkaConfig.effectiveAdvertisedBrokerListeners)."""
    endpoints = listeners_of(config, ADVERTISED if config.has(ADVERTISED) else LISTENERS)
    return [endpoint for endpoint in endpoints if endpoint.name not in config.controller_names]


def advertised_to_controllers(config: ServerConfig) -> list[Endpoint]:
    """Return the endpoints that other nodes see (KafkaConfig.effectiveAdvertisedControllerListeners). An address of all
    hosts that is not advertised by itself is left out there."""
    advertised = listeners_of(config, ADVERTISED) if config.has(ADVERTISED) else []
    own = {one.name: Endpoint(one.name, one.host.replace(NO_ADDRESS, ""), one.port) for one in listeners_of(config)}
    known = {name: endpoint for name, endpoint in own.items() if name in config.controller_names}
    known |= {endpoint.name: endpoint for endpoint in advertised if endpoint.name in config.controller_names}
    return [known[name.upper()] for name in config.controller_names if name.upper() in known]


def between_brokers(config: ServerConfig) -> tuple[str, str]:
    """Return the listener between brokers and its protocol."""
    if not config.has(BETWEEN_BROKERS):
        protocol = _protocol(config.text(BROKERS_PROTOCOL, _PLAINTEXT), BROKERS_PROTOCOL)
        return protocol, protocol
    if config.has(BROKERS_PROTOCOL):
        raise SettingRefused(BETWEEN_BROKERS, ListenerRefusal.ONLY_ONE())
    name, protocols = config.text(BETWEEN_BROKERS).upper(), protocols_of(config)
    if name not in protocols:
        raise SettingRefused(BETWEEN_BROKERS, ListenerRefusal.UNKNOWN_NAME(name=name))
    return name, protocols[name]
