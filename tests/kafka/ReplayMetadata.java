package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.fault.FaultHandler;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Replays metadata records by Kafka's own classes, those of a broker and those of a controller.
 *
 * A line of standard input: LOG or SNAPSHOT begins a sequence; any other line is a record in hex. Each record is
 * answered by a line: what the broker's and what the controller's replay say, "ok" or class and message, each in hex
 * where it has blanks. After the first refusal of a replay the rest of its sequence is "after".
 */
public class ReplayMetadata {
    private final boolean isSnapshot;
    private final List<Throwable> faults = new ArrayList<>();
    private MetadataImage image = MetadataImage.EMPTY;
    private final MetadataBatchLoader loader;
    private final MetadataDelta snapshot = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
    private final Object[] managers;
    private boolean brokerEnded = false;
    private boolean controllerEnded = false;
    private long offset = 0;

    ReplayMetadata(boolean isSnapshot) throws Exception {
        this.isSnapshot = isSnapshot;
        FaultHandler handler = (message, cause) -> {
            faults.add(cause);
            return new RuntimeException(message, cause);
        };
        this.loader = newLoader(handler);
        this.managers = newManagers(isSnapshot);
    }

    private MetadataBatchLoader newLoader(FaultHandler handler) throws Exception {
        MetadataBatchLoader.MetadataUpdater updater = (delta, image, manifest) -> this.image = image;
        Constructor<?> made = MetadataBatchLoader.class.getConstructors()[0];
        List<Object> given = new ArrayList<>(List.of(newLogContext(), Time.SYSTEM, handler, updater));
        if (made.getParameterCount() > given.size()) {
            Class<?> checker = made.getParameterTypes()[given.size()];
            given.add(mute(checker));
        }
        return (MetadataBatchLoader) made.newInstance(given.toArray());
    }

    /** Classes that are in other packages, from release to release. */
    private static Object newLogContext() throws Exception {
        return SnapshotRegistry.class.getConstructors()[0].getParameterTypes()[0].getConstructor().newInstance();
    }

    private static Object mute(Class<?> type) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[]{type}, (proxy, method, given) -> true);
    }

    private static void beginLoadSnapshot(OffsetControlManager offsets) throws Exception {
        for (Method method : OffsetControlManager.class.getDeclaredMethods()) {
            if (method.getName().equals("beginLoadSnapshot")) {
                method.invoke(offsets, method.getParameterTypes()[0].getConstructor(long.class, int.class).newInstance(1000L, 1));
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Object[] newManagers(boolean isSnapshot) throws Exception {
        SnapshotRegistry registry = (SnapshotRegistry) SnapshotRegistry.class.getConstructors()[0].newInstance(newLogContext());
        Method ranges = null;
        for (Method method : QuorumFeatures.class.getMethods()) {
            if (method.getName().matches("default(Supported)?FeatureMap")) ranges = method;
        }
        QuorumFeatures features = new QuorumFeatures(1, (Map<String, org.apache.kafka.metadata.VersionRange>) ranges.invoke(null, false), List.of(1));
        FeatureControlManager feature = new FeatureControlManager.Builder().setQuorumFeatures(features).setSnapshotRegistry(registry).build();
        ClusterControlManager.Builder clustering = new ClusterControlManager.Builder().setClusterId("x").setSnapshotRegistry(registry).setFeatureControlManager(feature);
        for (Method method : ClusterControlManager.Builder.class.getDeclaredMethods()) {
            if (method.getName().endsWith("ShutdownHandler")) method.invoke(clustering, mute(method.getParameterTypes()[0]));
        }
        ClusterControlManager cluster = clustering.build();
        ConfigurationControlManager.Builder configuring = new ConfigurationControlManager.Builder().setSnapshotRegistry(registry).setKafkaConfigSchema(KafkaConfigSchema.EMPTY);
        for (Method method : ConfigurationControlManager.Builder.class.getDeclaredMethods()) {
            if (method.getName().equals("setFeatureControl")) method.invoke(configuring, feature);
        }
        ConfigurationControlManager configs = configuring.build();
        ReplicationControlManager replication = new ReplicationControlManager.Builder().setSnapshotRegistry(registry).setConfigurationControl(configs).setClusterControl(cluster).setFeatureControl(feature).build();
        OffsetControlManager offsets = new OffsetControlManager.Builder().setSnapshotRegistry(registry).build();
        if (isSnapshot) beginLoadSnapshot(offsets);
        return new Object[]{
            replication, cluster, configs, feature, offsets,
            new AclControlManager.Builder().setSnapshotRegistry(registry).build(),
            new ScramControlManager.Builder().setSnapshotRegistry(registry).build(),
            new ClientQuotaControlManager.Builder().setSnapshotRegistry(registry).build(),
            new ProducerIdControlManager.Builder().setSnapshotRegistry(registry).setClusterControlManager(cluster).build(),
        };
    }

    /** Return what both say of a record. */
    private String take(byte[] value) {
        ApiMessageAndVersion record;
        try {
            record = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(java.nio.ByteBuffer.wrap(value)), value.length);
        } catch (Throwable e) {
            String said = said(e);
            String both = (brokerEnded ? "after" : said) + " " + (controllerEnded ? "after" : said);
            brokerEnded = controllerEnded = true;
            return both;
        }
        String broker = brokerEnded ? "after" : byBroker(record);
        String controller = controllerEnded ? "after" : byController(record.message());
        offset++;
        brokerEnded |= !broker.equals("ok");
        controllerEnded |= !controller.equals("ok");
        return broker + " " + controller;
    }

    private String byBroker(ApiMessageAndVersion record) {
        try {
            if (isSnapshot) {
                snapshot.replay(record.message());
                return "ok";
            }
            loader.loadBatch(Batch.data(offset, 1, 0L, 100, List.of(record)), LeaderAndEpoch.UNKNOWN);
            for (Method method : MetadataBatchLoader.class.getMethods()) {
                if (method.getName().equals("maybeFlushBatches")) {
                    if (method.getParameterCount() == 2) method.invoke(loader, LeaderAndEpoch.UNKNOWN, true);
                    else method.invoke(loader, LeaderAndEpoch.UNKNOWN);
                }
            }
        } catch (Throwable e) {
            return said(e);
        }
        return faults.isEmpty() ? "ok" : said(faults.get(0));
    }

    private String byController(ApiMessage message) {
        for (Object manager : managers) {
            for (Method method : manager.getClass().getDeclaredMethods()) {
                Class<?>[] types = method.getParameterTypes();
                if (!method.getName().equals("replay") || types.length == 0 || types[0] != message.getClass()) continue;
                method.setAccessible(true);
                try {
                    if (types.length == 1) method.invoke(manager, message);
                    else method.invoke(manager, message, offset);
                    return "ok";
                } catch (InvocationTargetException e) {
                    return said(e.getCause());
                } catch (Throwable e) {
                    return said(e);
                }
            }
        }
        return "ok"; // nothing to do: NoOpRecord, ZkMigrationStateRecord, delegation tokens
    }

    private static String said(Throwable e) {
        while (e instanceof InvocationTargetException && e.getCause() != null) e = e.getCause();
        String text = e.getClass().getSimpleName() + "\t" + e.getMessage();
        return HexFormat.of().formatHex(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        ReplayMetadata replay = null;
        java.io.PrintStream out = System.out;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("LOG") || line.equals("SNAPSHOT")) replay = new ReplayMetadata(line.equals("SNAPSHOT"));
            else out.println(replay.take(HexFormat.of().parseHex(line)));
        }
        out.flush();
    }
}
