"""What the settings of a process may be together: the checks of Kafka's KafkaConfig, in its order and in its words.

They are looked at where a file has `process.roles`: without it nobody knows whether the file is whole. A check that
asks for what a config provider has is left out, and so are those of ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, le, lt

from klogtool.broker.causes import ServerRefusal, ValueRefusal
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
from klogtool.causes import Reason
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
        refused.append(SettingRefused(ROLES, ValueRefusal.MISSING(name=ROLES)))
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


def _require(is_so: bool, name: str, why: Reason) -> None:
    """Predef.require of Scala."""
    if not is_so:
        raise SettingRefused(name, ServerRefusal.REQUIRED(why=why), "IllegalArgumentException")


# Of each kind of group that the release has: what may not be above or below what (GroupCoordinatorConfig).
_AT_LEAST, _AT_MOST, _LESS = ServerRefusal.AT_LEAST(), ServerRefusal.AT_MOST(), ServerRefusal.LESS()
_OF_GROUPS = (
    ("max.heartbeat.interval.ms", ge, _AT_LEAST, "min.heartbeat.interval.ms"),
    ("heartbeat.interval.ms", ge, _AT_LEAST, "min.heartbeat.interval.ms"),
    ("heartbeat.interval.ms", le, _AT_MOST, "max.heartbeat.interval.ms"),
    ("max.session.timeout.ms", ge, _AT_LEAST, "min.session.timeout.ms"),
    ("session.timeout.ms", ge, _AT_LEAST, "min.session.timeout.ms"),
    ("session.timeout.ms", le, _AT_MOST, "max.session.timeout.ms"),
    ("heartbeat.interval.ms", lt, _LESS, "session.timeout.ms"),
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
                why = ServerRefusal.ORDER(left=names[0], how=how, right=names[1])
                raise SettingRefused(names[0], why, "IllegalArgumentException")


def _check_early_listeners(config: ServerConfig) -> None:
    known = {endpoint.name for endpoint in listeners_of(config)}
    for name in filter(None, config.words(_EARLY)):
        if name not in known:
            raise SettingRefused(_EARLY, ServerRefusal.EARLY(listener=name))


def _check_protocols(config: ServerConfig) -> None:
    if config.exists(_REBALANCE) and config.has(_REBALANCE) and "classic" not in config.words(_REBALANCE):
        raise SettingRefused(_REBALANCE, ServerRefusal.NO_CLASSIC())


def _check_coordinators(config: ServerConfig) -> None:
    """GroupCoordinatorConfig, ShareCoordinatorConfig."""
    for name in filter(config.exists, _CODEC_NAMES):
        if (number := config.number(name)) not in range(_CODECS):
            raise SettingRefused(name, ServerRefusal.NO_CODEC(id=str(number)), "IllegalArgumentException")
    if config.exists(_UPDATES) and (config.number(_UPDATES) or 0) > _MOST_UPDATES:
        raise SettingRefused(_UPDATES, ServerRefusal.UPDATES(most=_MOST_UPDATES), "IllegalArgumentException")
    acks, replicas = "offsets.commit.required.acks", "offsets.topic.replication.factor"
    if config.exists(acks) and not -1 <= (config.number(acks) or 0) <= (config.number(replicas) or 0):
        raise SettingRefused(acks, ServerRefusal.ACKS(), "IllegalArgumentException")


def _is_old_level(config: ServerConfig) -> bool | None:
    """Return whether the file names a level without KRaft; None if what it names is none. Kafka 4 ignores it."""
    if not (config.rules.has_zookeeper and config.has(_LEVEL)):
        return False
    levels = config.rules.metadata_levels
    return is_level_before_kraft(config.text(_LEVEL), levels.highest, levels.production)


def _check_level(config: ServerConfig) -> None:
    if _is_old_level(config):
        raise SettingRefused(_LEVEL, ServerRefusal.OLD_LEVEL(level=config.text(_LEVEL)))


def _check_node_id(config: ServerConfig) -> None:
    if config.number(NODE_ID) != config.number(BROKER_ID):
        cause = ServerRefusal.OTHER_ID if config.rules.deprecates_broker_id else ServerRefusal.OTHER_BROKER_ID
        raise SettingRefused(NODE_ID, cause())
    if (config.number(NODE_ID) or 0) < 0:
        raise SettingRefused(NODE_ID, ServerRefusal.NO_NODE_ID())
    if config.exists(_MIGRATION) and config.text(_MIGRATION).lower() == "true" and not config.has(ZOOKEEPER):
        raise SettingRefused(_MIGRATION, ServerRefusal.MIGRATION())


def _milliseconds(config: ServerConfig, *units: tuple[str, int]) -> Number:
    """Return the first of the settings that has a value, in milliseconds."""
    return next(value * factor for name, factor in units if (value := config.number(name)) is not None)


def _check_logs(config: ServerConfig) -> None:
    roll = _milliseconds(config, ("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))
    _require(roll >= 1, "log.roll.ms", ServerRefusal.ROLL())
    jitter = _milliseconds(config, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS))
    _require(jitter >= 0, "log.roll.jitter.ms", ServerRefusal.JITTER())
    units = (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS))
    _require(_milliseconds(config, *units) != 0, "log.retention.ms", ServerRefusal.RETENTION())


def _log_dirs(config: ServerConfig) -> tuple[str, ...]:
    """Return the log dirs as they are written (AbstractKafkaConfig.logDirs)."""
    dirs = config.words(_LOG_DIRS if config.has(_LOG_DIRS) else _LOG_DIR, "/tmp/kafka-logs")
    return dirs if config.rules.checks_lists else tuple(filter(None, dirs))


def _check_log_dirs(config: ServerConfig) -> None:
    _require(bool(_log_dirs(config)), _LOG_DIRS, ServerRefusal.NO_LOG_DIR())


def _check_cordons(config: ServerConfig) -> None:
    """KafkaConfig.validateCordonedLogDirs (KIP-1066): the names are compared as texts."""
    cordoned = config.words(_CORDONED)
    if BROKER not in config.roles or not config.rules.cordons_log_dirs:
        return
    if _ALL in cordoned:
        _require(len(cordoned) == 1, _CORDONED, ServerRefusal.CORDONS_ALL())
    else:
        missing = tuple(name for name in cordoned if name not in _log_dirs(config))
        _require(not any(missing), _CORDONED, ServerRefusal.CORDONS_UNKNOWN(missing=missing))


def _check_cleaner(config: ServerConfig) -> None:
    name, threads = "log.cleaner.dedupe.buffer.size", config.number("log.cleaner.threads")
    if threads == 0:  # allowed, and then Kafka divides by it
        raise SettingRefused("log.cleaner.threads", ServerRefusal.BY_ZERO(), "ArithmeticException")
    size = int((config.number(name) or 0) / (threads or 1))
    _require(size > _MB, name, ServerRefusal.SMALL_BUFFER())


def _check_fetchers(config: ServerConfig) -> None:
    wait = config.number("replica.fetch.wait.max.ms") or 0
    socket, lag = "replica.socket.timeout.ms", "replica.lag.time.max.ms"
    _require(wait <= (config.number(socket) or 0), socket, ServerRefusal.TIMEOUTS())
    _require(wait <= (config.number(lag) or 0), "replica.fetch.wait.max.ms", ServerRefusal.CHANGES_IN_ISR())


def _check_connections(config: ServerConfig) -> None:
    queued, request = config.number("queued.max.request.bytes") or 0, config.number("socket.request.max.bytes") or 0
    _require(queued <= 0 or queued >= request, "queued.max.request.bytes", ServerRefusal.SMALL_QUEUE())
    if config.number("max.connections.per.ip") == 0:
        _require(config.text(_OVERRIDES) != "", "max.connections.per.ip", ServerRefusal.NO_CONNECTIONS())
    idle = config.number("connections.max.idle.ms") or 0
    delay = config.number("connection.failed.authentication.delay.ms")
    why = ServerRefusal.LONG_DELAY(delay=str(delay), idle=str(idle))
    _require(idle < 0 or (delay or 0) < idle, "connections.max.idle.ms", why)


def _check_quorum(config: ServerConfig) -> None:
    voters, servers = parse_voters(config), config.words(BOOTSTRAP_SERVERS)
    if voters or (servers and config.rules.has_dynamic_quorum):
        return
    cause = ServerRefusal.NO_CONTROLLERS if config.rules.has_dynamic_quorum else ServerRefusal.NO_VOTERS
    raise SettingRefused(VOTERS, cause())


def _check_broker_alone(config: ServerConfig) -> None:
    if config.roles != {BROKER}:
        return
    node_id, names, voters = config.number(NODE_ID), config.controller_names, tuple(sorted(parse_voters(config)))
    _require(node_id not in voters, VOTERS, ServerRefusal.BROKER_VOTES(node=str(node_id), voters=voters))
    _require(bool(names), CONTROLLER_LISTENERS, ServerRefusal.NO_CONTROLLER_LISTENER())
    own = {endpoint.name for endpoint in listeners_of(config)}
    _require(own.isdisjoint(names), CONTROLLER_LISTENERS, ServerRefusal.LISTENS_AS_CONTROLLER())
    protocols = protocols_of(config)
    if (unmapped := next((name.upper() for name in names if name.upper() not in protocols), None)) is not None:
        raise SettingRefused(PROTOCOL_MAP, ServerRefusal.UNMAPPED(listener=unmapped))
    if config.exists(_AUTO_JOIN):
        _require(config.text(_AUTO_JOIN).lower() != "true", _AUTO_JOIN, ServerRefusal.AUTO_JOIN())


def _check_controller_alone(config: ServerConfig) -> None:
    if config.roles != {CONTROLLER}:
        return
    own = listeners_of(config)
    if config.rules.has_dynamic_quorum:
        are_all = len(advertised_to_controllers(config)) == len(own)
    else:
        _require(not config.has(ADVERTISED), ADVERTISED, ServerRefusal.CONTROLLER_ADVERTISES())
        are_all = {endpoint.name for endpoint in own} <= set(config.controller_names)
    _require(are_all, LISTENERS, ServerRefusal.LISTENS_AS_BROKER())
    if config.has(BETWEEN_BROKERS) and config.rules.checks_lists:
        is_other = between_brokers(config)[0] not in config.controller_names
        _require(is_other, CONTROLLER_LISTENERS, ServerRefusal.BETWEEN_CONTROLLERS())


def _check_controller(config: ServerConfig) -> None:
    if CONTROLLER not in config.roles:
        return
    node_id, voters, names = config.number(NODE_ID), tuple(sorted(parse_voters(config))), config.controller_names
    why = ServerRefusal.CONTROLLER_NO_VOTER(node=str(node_id), voters=voters)
    _require(not voters or node_id in voters, VOTERS, why)
    own = {one.name for one in listeners_of(config)}
    if config.rules.has_dynamic_quorum:
        has_one = bool(advertised_to_controllers(config))
        _require(has_one, CONTROLLER_LISTENERS, ServerRefusal.LISTENS_NOWHERE())
    _require(own.issuperset(names), CONTROLLER_LISTENERS, ServerRefusal.LISTENS_ELSEWHERE())


def _check_broker(config: ServerConfig) -> None:
    if BROKER not in config.roles:
        return
    names, own = [one.name for one in advertised_of(config)], [one.name for one in listeners_of(config)]
    _require(bool(names), ADVERTISED, ServerRefusal.NO_BROKER_LISTENER())
    if not config.rules.has_dynamic_quorum and config.has(ADVERTISED):
        is_free = all(one.name not in config.controller_names for one in listeners_of(config, ADVERTISED))
        _require(is_free, ADVERTISED, ServerRefusal.ADVERTISES_CONTROLLER())
    shown = ",".join(names)
    _require(between_brokers(config)[0] in names, BETWEEN_BROKERS, ServerRefusal.BETWEEN_OTHERS(names=shown))
    _require(set(names) <= set(own), ADVERTISED, ServerRefusal.ADVERTISES_MORE(names=shown, own=",".join(own)))


def _check_addresses(config: ServerConfig) -> None:
    endpoints = [
        *advertised_of(config),
        *(advertised_to_controllers(config) if config.rules.has_dynamic_quorum else ()),
    ]
    _require(all(endpoint.host != NO_ADDRESS for endpoint in endpoints), ADVERTISED, ServerRefusal.ADVERTISES_ALL())


def _check_sasl(config: ServerConfig) -> None:
    name, protocol = between_brokers(config)
    if protocol.startswith("SASL_"):
        own = f"listener.name.{name.lower()}.{_MECHANISMS}"
        mechanisms = config.words(own) if config.has(own) else config.words(_MECHANISMS, "GSSAPI")
        _require(config.text(_MECHANISM, "GSSAPI") in mechanisms, _MECHANISM, ServerRefusal.OTHER_MECHANISM())


def _check_routable(config: ServerConfig) -> None:
    """KafkaRaftManager asks for the voters' addresses once more."""
    if any(address.host == NO_ADDRESS for address in parse_voters(config).values()):
        raise SettingRefused(VOTERS, ServerRefusal.NO_ROUTE())


def _check_classes(config: ServerConfig) -> None:
    """What ends a process as it makes objects of its classes, before it loads a log: BrokerServer, AuthorizerUtils."""
    if BROKER in config.roles and config.text(_REMOTE).lower() == "true" and not config.has(_REMOTE_MANAGER):
        raise SettingRefused(_REMOTE_MANAGER, "null", "NullPointerException")
    authorizer = config.text(_AUTHORIZER)
    if authorizer == _AUTHORIZER_OF_ZOOKEEPER and not (config.rules.has_zookeeper and config.has(ZOOKEEPER)):
        if config.rules.has_zookeeper:
            raise SettingRefused(_AUTHORIZER, ServerRefusal.NO_ZOOKEEPER(), "NullPointerException")
        raise SettingRefused(_AUTHORIZER, authorizer, "ClassNotFoundException")


def _check_sockets(config: ServerConfig) -> None:
    """What ends a process as it opens its listeners, before it loads a log: ServerSocket.setReceiveBufferSize."""
    if (size := config.number(_RECEIVE_BUFFER)) is not None and size <= 0 and size != _DEFAULT_OF_SYSTEM:
        raise SettingRefused(_RECEIVE_BUFFER, ServerRefusal.NO_BUFFER(), "IllegalArgumentException")


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
        raise SettingRefused(_LEVEL, ServerRefusal.NO_LEVEL(level=config.text(_LEVEL)))
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
