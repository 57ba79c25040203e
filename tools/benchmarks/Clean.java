import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's own cleaner: `Clean DIR SCRATCH SEGMENT_BYTES PASSES` prints the seconds of each Cleaner.clean of a partition,
 * and the bytes that are left, one pass a line.
 *
 * One thread, with a broker's default map (128 MiB), buffers and load factor, no throttle; what it writes it flushes.
 * Each pass cleans a fresh copy below SCRATCH, of the same file system: segments are hard links, since a cleaner replaces
 * whole files. The log is read once before, so that it is in the page cache; loading it and the copy are not counted.
 */
public final class Clean {
    private static final int MAP_BYTES = 128 << 20;
    private static final int IO_BUFFER_BYTES = 512 * 1024 / 2;
    private static final int MAX_IO_BUFFER_BYTES = 1024 * 1024 + 12;
    private static final double LOAD_FACTOR = 0.9;
    private static final int PRODUCER_ID_EXPIRATION_CHECK_MS = 600_000;

    public static void main(String[] args) throws Exception {
        Path dir = Path.of(args[0]).toRealPath();
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact", "segment.bytes", Integer.parseInt(args[2])));
        for (Path file : filesOf(dir))
            Shared.readOnce(file);
        for (int pass = 0; pass < Integer.parseInt(args[3]); pass++)
            clean(dir, Path.of(args[1]), config);
    }

    private static void clean(Path dir, Path scratch, LogConfig config) throws Exception {
        Path folder = Files.createTempDirectory(scratch, "clean");
        try {
            Path copy = folder.resolve(dir.getFileName());
            copyPartition(dir, copy);
            UnifiedLog log = UnifiedLog.create(copy.toFile(), config, 0L, Long.MAX_VALUE, Shared.NEVER,
                new BrokerTopicStats(), Time.SYSTEM, Shared.MAX_TRANSACTION_TIMEOUT_MS,
                new ProducerStateManagerConfig(Shared.PRODUCER_ID_EXPIRATION_MS, true), PRODUCER_ID_EXPIRATION_CHECK_MS,
                new LogDirFailureChannel(1), true, Optional.empty());
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(MAP_BYTES), IO_BUFFER_BYTES, MAX_IO_BUFFER_BYTES,
                LOAD_FACTOR, new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), Time.SYSTEM,
                partition -> { });
            LogToClean all = new LogToClean(log, 0L, log.activeSegment().baseOffset(), false);
            long begin = System.nanoTime();
            cleaner.clean(all);
            System.out.println((System.nanoTime() - begin) / 1e9 + " " + log.size());
            log.closeHandlers();
        } finally {
            Shared.deleteAll(folder);
        }
    }

    private static void copyPartition(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        for (Path file : filesOf(from)) {
            Path target = to.resolve(file.getFileName());
            if (file.toString().endsWith(".log") && Files.size(file) > 0)
                Files.createLink(target, file);
            else
                Files.copy(file, target);
        }
    }

    private static List<Path> filesOf(Path dir) throws IOException {
        try (Stream<Path> found = Files.list(dir)) {
            return found.filter(Files::isRegularFile).toList();
        }
    }
}
