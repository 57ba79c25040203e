"""What a controller's server.properties says of the quorum (QuorumConfig, AbstractKafkaConfig)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from klogtool.format.kraft_snapshot import Endpoint

CONTROLLER, BROKER = "controller", "broker"
NODE_IDS = ("node.id", "broker.id")


class Configuration(Struct, frozen=True):
    """node_id: None if the file has none. voters: the endpoint of each voter of a static quorum, by node id
    (controller.quorum.voters). endpoints: those on which this controller can be reached, as it tells others."""

    node_id: int | None
    roles: tuple[str, ...]
    voters: Mapping[int, Endpoint]
    bootstrap_servers: tuple[str, ...]
    endpoints: tuple[Endpoint, ...]

    @property
    def is_controller(self) -> bool:
        """Return whether process.roles has the controller."""
        return CONTROLLER in self.roles

    @property
    def is_combined(self) -> bool:
        """Return whether the node is a broker as well: it ends if it never has a leader."""
        return self.is_controller and BROKER in self.roles


def parse_configuration(settings: Mapping[str, str]) -> Configuration:
    """Return what the settings of a server.properties say. Whatever is malformed counts as absent: Kafka refuses it
    before it looks at a disk."""
    ids = (settings[key].strip() for key in NODE_IDS if key in settings)
    node_id = next((int(text) for text in ids if text.isascii() and text.isdigit()), None)
    return Configuration(
        node_id,
        tuple(listed(settings.get("process.roles"))),
        dict(_voters(settings.get("controller.quorum.voters"))),
        tuple(listed(settings.get("controller.quorum.bootstrap.servers"))),
        tuple(_endpoints(settings)),
    )


def listed(text: str | None) -> Iterator[str]:
    """Yield the words of a list (ConfigDef.Type.LIST)."""
    yield from (word.strip() for word in (text or "").split(",") if word.strip())


def _voters(text: str | None) -> Iterator[tuple[int, Endpoint]]:
    for word in listed(text):
        node_id, _, address = word.partition("@")
        endpoint = _endpoint("", address)
        if node_id.isascii() and node_id.isdigit() and endpoint is not None:
            yield int(node_id), endpoint


def _endpoints(settings: Mapping[str, str]) -> Iterator[Endpoint]:
    """Yield the controller's own endpoints: the advertised ones where there are any
    (AbstractKafkaConfig.effectiveAdvertisedControllerListeners)."""
    names = set(listed(settings.get("controller.listener.names")))
    advertised = {found.name: found for found in _listeners(settings.get("advertised.listeners"))}
    for listener in _listeners(settings.get("listeners")):
        if listener.name in names:
            yield advertised.get(listener.name, listener)


def _listeners(text: str | None) -> Iterator[Endpoint]:
    for word in listed(text):
        name, separator, address = word.partition("://")
        endpoint = _endpoint(name.upper(), address)
        if separator and endpoint is not None:
            yield endpoint


def _endpoint(name: str, address: str) -> Endpoint | None:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        return None
    return Endpoint(name, host.removeprefix("[").removesuffix("]"), int(port))
