import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Stream;

import org.apache.kafka.server.util.Scheduler;

/** What the programs here that time Kafka's own classes share: a broker's defaults, a scheduler, files. */
final class Shared {
    static final int PRODUCER_ID_EXPIRATION_MS = 86_400_000;
    static final int MAX_TRANSACTION_TIMEOUT_MS = 900_000;

    /** Runs nothing. */
    static final Scheduler NEVER = new Scheduler() {
        @Override public void startup() { }
        @Override public void shutdown() { }
        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return null;
        }
        @Override public void resizeThreadPool(int newSize) { }
    };

    private Shared() { }

    /** So that the file is in the page cache. */
    static void readOnce(Path file) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocateDirect(1 << 20);
        try (FileChannel channel = FileChannel.open(file)) {
            while (channel.read(buffer.clear()) > 0) { }
        }
    }

    static void deleteAll(Path folder) throws IOException {
        try (Stream<Path> found = Files.walk(folder)) {
            List<Path> deepestFirst = found.sorted(Comparator.reverseOrder()).toList();
            for (Path path : deepestFirst)
                Files.delete(path);
        }
    }
}
