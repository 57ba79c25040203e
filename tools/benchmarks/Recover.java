import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Kafka's own recovery: `Recover PASSES LOG...` prints the seconds of each LogSegment.recover, one a line.
 *
 * The first pass is that of a broker's start, in a JVM that has yet to compile all of it. For several passes the logs
 * are read once before, so that they are in the page cache; the index files are made in a folder that goes away.
 */
public final class Recover {

    public static void main(String[] args) throws Exception {
        int passes = Integer.parseInt(args[0]);
        for (int n = 1; n < args.length; n++) {
            Path log = Path.of(args[n]).toRealPath();
            if (passes > 1)
                Shared.readOnce(log);
            for (int pass = 0; pass < passes; pass++)
                System.out.println(recover(log));
        }
    }

    private static double recover(Path log) throws Exception {
        Path folder = Files.createTempDirectory("recover");
        try {
            Files.createSymbolicLink(folder.resolve(log.getFileName()), log);
            TopicPartition partition = new TopicPartition("t", 0);
            LeaderEpochFileCache epochs = new LeaderEpochFileCache(partition, new LeaderEpochCheckpointFile(
                folder.resolve("leader-epoch-checkpoint").toFile(), new LogDirFailureChannel(1)), Shared.NEVER);
            ProducerStateManager producers = new ProducerStateManager(partition, folder.toFile(),
                Shared.MAX_TRANSACTION_TIMEOUT_MS, new ProducerStateManagerConfig(Shared.PRODUCER_ID_EXPIRATION_MS, true),
                Time.SYSTEM);
            long baseOffset = Long.parseLong(log.getFileName().toString().replace(".log", ""));
            try (LogSegment segment = LogSegment.open(folder.toFile(), baseOffset, new LogConfig(Map.of()),
                    Time.SYSTEM, true, 0, false, "")) {
                long begin = System.nanoTime();
                int truncated = segment.recover(producers, epochs);
                double seconds = (System.nanoTime() - begin) / 1e9;
                if (truncated != 0)
                    throw new IllegalStateException(truncated + " bytes were cut off");
                return seconds;
            }
        } finally {
            Shared.deleteAll(folder);
        }
    }
}
