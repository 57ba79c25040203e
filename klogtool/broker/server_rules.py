"""What the settings of a process may be together: the checks of Kafka's KafkaConfig, in its order and in its words.

They are looked at where a file has `process.roles`: without it nobody knows whether the file is whole. A check that
asks for what a config provider has is left out, and so are those of ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, le, lt

from klogtool.broker.releases import Rules
from klogtool.broker.server_listeners import (
    ADVERTISED,
    BETWEEN_BROKERS,
    BOOTSTRAP_SERVERS,
    BROKERS_PROTOCOL,
    LISTENERS,
    NO_ADDRESS,
    PROTOCOL_MAP,
    VOTERS,
    advertised_of,
    advertised_to_controllers,
    between_brokers,
    listeners_of,
    parse_servers,
    parse_voters,
    protocols_of,
)
from klogtool.broker.server_settings import (
    BROKER_ID,
    CONTROLLER_LISTENERS,
    NODE_ID,
    ROLES,
    NotKnown,
    Number,
    ServerConfig,
    SettingRefused,
    is_defined,
    listed,
    refused_values,
)
from klogtool.format.metadata_versions import is_level_before_kraft

BROKER, CONTROLLER = "broker", "controller"
ZOOKEEPER = "zookeeper.connect"
_LOG_DIRS, _LOG_DIR = "log.dirs", "log.dir"
_MECHANISM, _MECHANISMS = "sasl.mechanism.inter.broker.protocol", "sasl.enabled.mechanisms"
_EARLY = "early.start.listeners"
_REBALANCE = "group.coordinator.rebalance.protocols"
_AUTO_JOIN = "controller.quorum.auto.join.enable"
_MIGRATION = "zookeeper.metadata.migration.enable"
_OVERRIDES = "max.connections.per.ip.overrides"
_CODEC_NAMES = ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec")
_UPDATES, _MOST_UPDATES = "share.coordinator.snapshot.update.records.per.snapshot", 500
_REMOTE, _REMOTE_MANAGER = "remote.log.storage.system.enable", "remote.log.storage.manager.class.name"
_AUTHORIZER, _AUTHORIZER_OF_ZOOKEEPER = "authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"
_LEVEL = "inter.broker.protocol.version"
_RECEIVE_BUFFER, _DEFAULT_OF_SYSTEM = "socket.receive.buffer.bytes", -1
_OF_CLASSES, _OF_KAFKA = (".class", ".class.name", ".reporters", ".assignors"), ("org.apache.kafka.", "kafka.")
_CORDONED, _ALL = "cordoned.log.dirs", "*"
_CODECS = 5  # CompressionType: none, gzip, snappy, lz4, zstd
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_MB = 1 << 20
# What the checks ask for beside the settings of the table.
_ROUTES = (VOTERS, BOOTSTRAP_SERVERS, CONTROLLER_LISTENERS, LISTENERS, ADVERTISED, PROTOCOL_MAP)
_TEXTS = (
    *_ROUTES,
    BETWEEN_BROKERS,
    BROKERS_PROTOCOL,
    ZOOKEEPER,
    _EARLY,
    _OVERRIDES,
    _AUTHORIZER,
    _LOG_DIRS,
    _LOG_DIR,
    _MECHANISM,
    _LEVEL,
)


# A file with one of these is no mere part of the settings of a process.
_OF_A_PROCESS = frozenset((ZOOKEEPER, *_ROUTES))


def is_asked_for(name: str) -> bool:
    """Return whether a check asks for a setting. None of these is a secret."""
    return is_defined(name) or name in _TEXTS or name.endswith(_MECHANISMS)


def find_refusals(settings: Mapping[str, str], rules: Rules) -> list[SettingRefused]:
    """Return each value at which the process ends; where they are right by themselves, the first check that they do not
    pass together."""
    refused = list(refused_values(settings, rules))
    if not refused and ROLES not in settings and not (rules.has_zookeeper or _OF_A_PROCESS.isdisjoint(settings)):
        refused.append(SettingRefused(ROLES, f'Missing required configuration "{ROLES}" which has no default value.'))
    config = ServerConfig(settings, rules)
    if refused or not listed(settings, ROLES):
        return refused
    for check in _CHECKS:
        try:
            check(config)
        except NotKnown:
            continue
        except SettingRefused as wrong:
            return [wrong]
    return []


def _require(is_so: bool, name: str, message: str) -> None:
    """Predef.require of Scala."""
    if not is_so:
        raise SettingRefused(name, f"requirement failed: {message}", "IllegalArgumentException")


# Of each kind of group that the release has: what may not be above or below what (GroupCoordinatorConfig).
_AT_LEAST, _AT_MOST = "greater than or equal to", "less than or equal to"
_OF_GROUPS = (
    ("max.heartbeat.interval.ms", ge, _AT_LEAST, "min.heartbeat.interval.ms"),
    ("heartbeat.interval.ms", ge, _AT_LEAST, "min.heartbeat.interval.ms"),
    ("heartbeat.interval.ms", le, _AT_MOST, "max.heartbeat.interval.ms"),
    ("max.session.timeout.ms", ge, _AT_LEAST, "min.session.timeout.ms"),
    ("session.timeout.ms", ge, _AT_LEAST, "min.session.timeout.ms"),
    ("session.timeout.ms", le, _AT_MOST, "max.session.timeout.ms"),
    ("heartbeat.interval.ms", lt, "less than", "session.timeout.ms"),
    ("max.assignment.interval.ms", ge, _AT_LEAST, "min.assignment.interval.ms"),
    ("assignment.interval.ms", ge, _AT_LEAST, "min.assignment.interval.ms"),
    ("assignment.interval.ms", le, _AT_MOST, "max.assignment.interval.ms"),
    ("num.standby.replicas", le, _AT_MOST, "max.standby.replicas"),
    ("task.offset.interval.ms", ge, _AT_LEAST, "min.task.offset.interval.ms"),
    ("num.warmup.replicas", le, _AT_MOST, "max.warmup.replicas"),
    # ShareGroupConfig
    ("max.delivery.count.limit", ge, _AT_LEAST, "delivery.count.limit"),
    ("delivery.count.limit", ge, _AT_LEAST, "min.delivery.count.limit"),
    ("max.partition.max.record.locks", ge, _AT_LEAST, "partition.max.record.locks"),
    ("partition.max.record.locks", ge, _AT_LEAST, "min.partition.max.record.locks"),
    ("record.lock.duration.ms", ge, _AT_LEAST, "min.record.lock.duration.ms"),
    ("max.record.lock.duration.ms", ge, _AT_LEAST, "record.lock.duration.ms"),
    ("max.share.sessions", ge, _AT_LEAST, "max.size"),
)


def _check_groups(config: ServerConfig) -> None:
    for kind in ("consumer", "share", "streams"):
        for left, holds, how, right in _OF_GROUPS:
            names = f"group.{kind}.{left}", f"group.{kind}.{right}"
            if all(map(config.exists, names)) and not holds(*(config.number(name) or 0 for name in names)):
                raise SettingRefused(names[0], f"{names[0]} must be {how} {names[1]}", "IllegalArgumentException")


def _check_early_listeners(config: ServerConfig) -> None:
    known = {endpoint.name for endpoint in listeners_of(config)}
    for name in filter(None, config.words(_EARLY)):
        if name not in known:
            message = f"{_EARLY} contains listener {name}, but this is not contained in {LISTENERS} or "
            raise SettingRefused(_EARLY, message + CONTROLLER_LISTENERS)


def _check_protocols(config: ServerConfig) -> None:
    if config.exists(_REBALANCE) and config.has(_REBALANCE) and "classic" not in config.words(_REBALANCE):
        raise SettingRefused(_REBALANCE, "Disabling the 'classic' protocol is not supported.")


def _check_coordinators(config: ServerConfig) -> None:
    """GroupCoordinatorConfig, ShareCoordinatorConfig."""
    for name in filter(config.exists, _CODEC_NAMES):
        if (number := config.number(name)) not in range(_CODECS):
            raise SettingRefused(name, f"Unknown compression type id: {number}", "IllegalArgumentException")
    if config.exists(_UPDATES) and (config.number(_UPDATES) or 0) > _MOST_UPDATES:
        message = f"{_UPDATES} must be between [0, {_MOST_UPDATES}]"
        raise SettingRefused(_UPDATES, message, "IllegalArgumentException")
    acks, replicas = "offsets.commit.required.acks", "offsets.topic.replication.factor"
    if config.exists(acks) and not -1 <= (config.number(acks) or 0) <= (config.number(replicas) or 0):
        message = f"{acks} must be greater or equal to -1 and less or equal to {replicas}"
        raise SettingRefused(acks, message, "IllegalArgumentException")


def _is_old_level(config: ServerConfig) -> bool | None:
    """Return whether the file names a level without KRaft; None if what it names is none. Kafka 4 ignores it."""
    if not (config.rules.has_zookeeper and config.has(_LEVEL)):
        return False
    levels = config.rules.metadata_levels
    return is_level_before_kraft(config.text(_LEVEL), levels.highest, levels.production)


def _check_level(config: ServerConfig) -> None:
    if _is_old_level(config):
        message = f"A non-KRaft version {config.text(_LEVEL)} given for {_LEVEL}. The minimum version is 3.0-IV1"
        raise SettingRefused(_LEVEL, message)


def _check_node_id(config: ServerConfig) -> None:
    if config.number(NODE_ID) != config.number(BROKER_ID):
        message = "You must set `node.id` to the same value as `broker.id`."
        if config.rules.deprecates_broker_id:
            message = (
                f"`{NODE_ID}` and `{BROKER_ID}` must be set to the same value. `{BROKER_ID}` is deprecated, please use "
            )
            message += f"`{NODE_ID}` instead."
        raise SettingRefused(NODE_ID, message)
    if (config.number(NODE_ID) or 0) < 0:
        message = (
            "Missing configuration `node.id` which is required when `process.roles` is defined (i.e. when running "
        )
        raise SettingRefused(NODE_ID, message + "in KRaft mode).")
    if config.exists(_MIGRATION) and config.text(_MIGRATION).lower() == "true" and not config.has(ZOOKEEPER):
        message = f"If using `{_MIGRATION}` in KRaft mode, `{ZOOKEEPER}` must also be set."
        raise SettingRefused(_MIGRATION, message)


def _milliseconds(config: ServerConfig, *units: tuple[str, int]) -> Number:
    """Return the first of the settings that has a value, in milliseconds."""
    return next(value * factor for name, factor in units if (value := config.number(name)) is not None)


def _check_logs(config: ServerConfig) -> None:
    roll = _milliseconds(config, ("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))
    _require(roll >= 1, "log.roll.ms", "log.roll.ms must be greater than or equal to 1")
    jitter = _milliseconds(config, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS))
    _require(jitter >= 0, "log.roll.jitter.ms", "log.roll.jitter.ms must be greater than or equal to 0")
    units = (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS))
    message = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    _require(_milliseconds(config, *units) != 0, "log.retention.ms", message)


def _log_dirs(config: ServerConfig) -> tuple[str, ...]:
    """Return the log dirs as they are written (AbstractKafkaConfig.logDirs)."""
    dirs = config.words(_LOG_DIRS if config.has(_LOG_DIRS) else _LOG_DIR, "/tmp/kafka-logs")
    return dirs if config.rules.checks_lists else tuple(filter(None, dirs))


def _check_log_dirs(config: ServerConfig) -> None:
    message = "At least one log directory must be defined via log.dirs or log.dir."
    _require(bool(_log_dirs(config)), _LOG_DIRS, message)


def _check_cordons(config: ServerConfig) -> None:
    """KafkaConfig.validateCordonedLogDirs (KIP-1066): the names are compared as texts."""
    cordoned = config.words(_CORDONED)
    if BROKER not in config.roles or not config.rules.cordons_log_dirs:
        return
    if _ALL in cordoned:
        message = f"When {_CORDONED} is set to {_ALL}, it must not contain other values"
        _require(len(cordoned) == 1, _CORDONED, message)
    else:
        missing = ", ".join(name for name in cordoned if name not in _log_dirs(config))
        message = f"All entries in {_CORDONED} must be present in log.dirs or log.dir. Missing entries : {missing}"
        _require(not missing, _CORDONED, message)


def _check_cleaner(config: ServerConfig) -> None:
    name, threads = "log.cleaner.dedupe.buffer.size", config.number("log.cleaner.threads")
    if threads == 0:  # allowed, and then Kafka divides by it
        raise SettingRefused("log.cleaner.threads", "/ by zero", "ArithmeticException")
    size = int((config.number(name) or 0) / (threads or 1))
    _require(size > _MB, name, f"{name} must be at least 1MB per cleaner thread.")


_NO_TIMEOUTS = (
    "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
    "timeouts"
)
_NO_CHANGES = (
    "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
    "changes in ISR"
)


def _check_fetchers(config: ServerConfig) -> None:
    wait = config.number("replica.fetch.wait.max.ms") or 0
    _require(wait <= (config.number("replica.socket.timeout.ms") or 0), "replica.socket.timeout.ms", _NO_TIMEOUTS)
    _require(wait <= (config.number("replica.lag.time.max.ms") or 0), "replica.fetch.wait.max.ms", _NO_CHANGES)


def _check_connections(config: ServerConfig) -> None:
    queued, request = config.number("queued.max.request.bytes") or 0, config.number("socket.request.max.bytes") or 0
    message = "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    _require(queued <= 0 or queued >= request, "queued.max.request.bytes", message)
    if config.number("max.connections.per.ip") == 0:
        message = f"max.connections.per.ip can be set to zero only if {_OVERRIDES} property is set."
        _require(config.text(_OVERRIDES) != "", "max.connections.per.ip", message)
    idle, delay = (
        config.number("connections.max.idle.ms") or 0,
        config.number("connection.failed.authentication.delay.ms"),
    )
    message = (
        f"connection.failed.authentication.delay.ms={delay} should always be less than connections.max.idle.ms={idle} "
        "to prevent failed authentication responses from timing out"
    )
    _require(idle < 0 or (delay or 0) < idle, "connections.max.idle.ms", message)


def _check_quorum(config: ServerConfig) -> None:
    voters, servers = parse_voters(config), config.words(BOOTSTRAP_SERVERS)
    if voters or (servers and config.rules.has_dynamic_quorum):
        return
    if config.rules.has_dynamic_quorum:
        needed = f"either {BOOTSTRAP_SERVERS} must contain the set of bootstrap controllers or {VOTERS} must contain a "
        needed += "parseable set of controllers."
    else:
        needed = f"{VOTERS} must contain a parseable set of voters."
    raise SettingRefused(VOTERS, f"If using {ROLES}, {needed}")


def _shown_voters(config: ServerConfig) -> str:
    return f"{VOTERS}=Set({', '.join(map(str, sorted(parse_voters(config))))})"


def _check_broker_alone(config: ServerConfig) -> None:
    if config.roles != {BROKER}:
        return
    node_id, names = config.number(NODE_ID), config.controller_names
    message = (
        f"If {ROLES} contains just the 'broker' role, the node id {node_id} must not be included in the set of voters "
    )
    _require(node_id not in parse_voters(config), VOTERS, message + _shown_voters(config))
    message = f"{CONTROLLER_LISTENERS} must contain at least one value when running KRaft with just the broker role"
    _require(bool(names), CONTROLLER_LISTENERS, message)
    message = (
        f"{CONTROLLER_LISTENERS} must not contain a value appearing in the '{LISTENERS}' configuration when running "
    )
    own = {endpoint.name for endpoint in listeners_of(config)}
    _require(own.isdisjoint(names), CONTROLLER_LISTENERS, f"{message}KRaft with just the broker role")
    protocols = protocols_of(config)
    if (unmapped := next((name.upper() for name in names if name.upper() not in protocols), None)) is not None:
        message = (
            f"Controller listener with name {unmapped} defined in {CONTROLLER_LISTENERS} not found in {PROTOCOL_MAP}  "
            f"(an explicit security mapping for each controller listener is required if {PROTOCOL_MAP} is non-empty, "
            "or if there are security protocols other than PLAINTEXT in use)"
        )
        raise SettingRefused(PROTOCOL_MAP, message)
    if config.exists(_AUTO_JOIN):
        message = f"{_AUTO_JOIN} is only supported when {ROLES} contains the 'controller' role."
        _require(config.text(_AUTO_JOIN).lower() != "true", _AUTO_JOIN, message)


def _check_controller_alone(config: ServerConfig) -> None:
    if config.roles != {CONTROLLER}:
        return
    message = (
        f"The {LISTENERS} config must only contain KRaft controller listeners from {CONTROLLER_LISTENERS} when {ROLES}"
    )
    own = listeners_of(config)
    if config.rules.has_dynamic_quorum:
        are_all = len(advertised_to_controllers(config)) == len(own)
    else:
        _require(
            not config.has(ADVERTISED), ADVERTISED, f"The {ADVERTISED} config must be empty when {ROLES}=controller"
        )
        are_all = {endpoint.name for endpoint in own} <= set(config.controller_names)
    _require(are_all, LISTENERS, f"{message}=controller")
    if config.has(BETWEEN_BROKERS) and config.rules.checks_lists:
        message = (
            f"{CONTROLLER_LISTENERS} must not contain an explicitly set {BETWEEN_BROKERS} configuration value when "
        )
        is_other = between_brokers(config)[0] not in config.controller_names
        _require(is_other, CONTROLLER_LISTENERS, f"{message}{ROLES}=controller'")


def _check_controller(config: ServerConfig) -> None:
    if CONTROLLER not in config.roles:
        return
    node_id, voters, names = config.number(NODE_ID), parse_voters(config), config.controller_names
    message = f"If {ROLES} contains the 'controller' role, the node id {node_id} must be included in the set of voters "
    _require(not voters or node_id in voters, VOTERS, message + _shown_voters(config))
    own, where = (
        {one.name for one in listeners_of(config)},
        f"values appearing in the '{LISTENERS}' configuration when ",
    )
    if config.rules.has_dynamic_quorum:
        message = f"{CONTROLLER_LISTENERS} must contain at least one {where.replace('values', 'value', 1)}"
        _require(
            bool(advertised_to_controllers(config)),
            CONTROLLER_LISTENERS,
            f"{message}running the KRaft controller role",
        )
    message = f"{CONTROLLER_LISTENERS} must only contain {where}running the KRaft controller role"
    _require(own.issuperset(names), CONTROLLER_LISTENERS, message)


def _check_broker(config: ServerConfig) -> None:
    if BROKER not in config.roles:
        return
    names, own = [one.name for one in advertised_of(config)], [one.name for one in listeners_of(config)]
    message = "There must be at least one broker advertised listener. Perhaps all listeners appear in "
    _require(bool(names), ADVERTISED, f"{message}{CONTROLLER_LISTENERS}?")
    if not config.rules.has_dynamic_quorum and config.has(ADVERTISED):
        message = (
            f"The {ADVERTISED} config must not contain KRaft controller listeners from {CONTROLLER_LISTENERS} when "
            f"{ROLES} contains the broker role because Kafka clients that send requests via advertised listeners do "
            "not send requests to KRaft controllers -- they only send requests to KRaft brokers."
        )
        is_free = all(one.name not in config.controller_names for one in listeners_of(config, ADVERTISED))
        _require(is_free, ADVERTISED, message)
    message = (
        f"{BETWEEN_BROKERS} must be a listener name defined in {ADVERTISED}. The valid options based on currently "
    )
    message += f"configured listeners are {','.join(names)}"
    _require(between_brokers(config)[0] in names, BETWEEN_BROKERS, message)
    message = f"{ADVERTISED} listener names must be equal to or a subset of the ones defined in {LISTENERS}. Found "
    message += f"{','.join(names)}. The valid options based on the current configuration are {','.join(own)}"
    _require(set(names) <= set(own), ADVERTISED, message)


def _check_addresses(config: ServerConfig) -> None:
    endpoints = [
        *advertised_of(config),
        *(advertised_to_controllers(config) if config.rules.has_dynamic_quorum else ()),
    ]
    message = f"{ADVERTISED} cannot use the nonroutable meta-address {NO_ADDRESS}. Use a routable IP address."
    _require(all(endpoint.host != NO_ADDRESS for endpoint in endpoints), ADVERTISED, message)


def _check_sasl(config: ServerConfig) -> None:
    name, protocol = between_brokers(config)
    if protocol.startswith("SASL_"):
        own = f"listener.name.{name.lower()}.{_MECHANISMS}"
        mechanisms = config.words(own) if config.has(own) else config.words(_MECHANISMS, "GSSAPI")
        message = f"{_MECHANISM} must be included in {_MECHANISMS} when SASL is used for inter-broker communication"
        _require(config.text(_MECHANISM, "GSSAPI") in mechanisms, _MECHANISM, message)


def _check_routable(config: ServerConfig) -> None:
    """KafkaRaftManager asks for the voters' addresses once more."""
    if any(address.host == NO_ADDRESS for address in parse_voters(config).values()):
        raise SettingRefused(VOTERS, f"Host string ({NO_ADDRESS}) is not routeable")


def _check_classes(config: ServerConfig) -> None:
    """What ends a process as it makes objects of its classes, before it loads a log: BrokerServer, AuthorizerUtils."""
    if BROKER in config.roles and config.text(_REMOTE).lower() == "true" and not config.has(_REMOTE_MANAGER):
        raise SettingRefused(_REMOTE_MANAGER, "null", "NullPointerException")
    authorizer = config.text(_AUTHORIZER)
    if authorizer == _AUTHORIZER_OF_ZOOKEEPER and not (config.rules.has_zookeeper and config.has(ZOOKEEPER)):
        if config.rules.has_zookeeper:
            message = 'Cannot invoke "String.indexOf(String)" because "connectString" is null'
            raise SettingRefused(_AUTHORIZER, message, "NullPointerException")
        raise SettingRefused(_AUTHORIZER, authorizer, "ClassNotFoundException")


def _check_sockets(config: ServerConfig) -> None:
    """What ends a process as it opens its listeners, before it loads a log: ServerSocket.setReceiveBufferSize."""
    if (size := config.number(_RECEIVE_BUFFER)) is not None and size <= 0 and size != _DEFAULT_OF_SYSTEM:
        raise SettingRefused(_RECEIVE_BUFFER, "size cannot be 0 or negative", "IllegalArgumentException")


def find_foreign_classes(settings: Mapping[str, str]) -> list[str]:
    """Return the settings that name classes of others than Kafka. A process ends where it does not find one."""
    return sorted(
        name
        for name, value in settings.items()
        if name.endswith(_OF_CLASSES)
        and any("." in word and not word.startswith(_OF_KAFKA) for word in map(str.strip, value.split(",")))
    )


def _check_texts(config: ServerConfig) -> None:
    """The validators of QuorumConfig and of levels (MetadataVersionValidator), which belong to the values."""
    if _is_old_level(config) is None:
        level = config.text(_LEVEL)
        message = f"Invalid value {level} for configuration {_LEVEL}: Version {level} is not a valid version"
        raise SettingRefused(_LEVEL, message)
    parse_voters(config)
    parse_servers(config)


_CHECKS: tuple[Callable[[ServerConfig], object], ...] = (
    _check_texts,
    _check_groups,
    _check_early_listeners,
    _check_protocols,
    _check_coordinators,
    _check_level,
    _check_node_id,
    _check_logs,
    _check_log_dirs,
    _check_cleaner,
    _check_fetchers,
    advertised_of,
    _check_quorum,
    _check_broker_alone,
    _check_controller_alone,
    _check_controller,
    _check_broker,
    _check_cordons,
    _check_addresses,
    _check_sasl,
    _check_connections,
    _check_routable,
    _check_classes,
    _check_sockets,
)
