import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import com.sun.management.OperatingSystemMXBean;

import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/**
 * Kafka's own appending of all batches of LOG to a new segment in FOLDER, by LogSegment.append in sets of about 1 MiB:
 * `Append LOG FOLDER PASSES` prints seconds and processor seconds, one line a pass, of
 *
 * - appending sets that are in memory before the clock runs, as those of a fetch are; nothing is validated
 * - reading them from LOG, checking the CRC of each batch (UnifiedLog.append does that for a follower), appending
 * - the same, and flushing the segment
 */
public final class Append {
    private static final int SET_BYTES = 1 << 20;
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private record Chunk(long lastOffset, MemoryRecords records) { }

    private interface Work {
        void on(LogSegment segment) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Path log = Path.of(args[0]), folder = Path.of(args[1]);
        List<Chunk> sets = read(log);
        for (int pass = 0; pass < Integer.parseInt(args[2]); pass++) {
            String bare = seconds(folder, segment -> {
                for (Chunk set : sets)
                    segment.append(set.lastOffset(), set.records());
            });
            String checked = seconds(folder, segment -> appendChecked(log, segment));
            String flushed = seconds(folder, segment -> {
                appendChecked(log, segment);
                segment.flush();
            });
            System.out.println(bare + " " + checked + " " + flushed);
        }
    }

    private static String seconds(Path parent, Work work) throws Exception {
        Path folder = Files.createTempDirectory(parent, "append");
        try (LogSegment segment = LogSegment.open(folder.toFile(), 0, new LogConfig(Map.of()), Time.SYSTEM, false, 0, false, "")) {
            long begin = System.nanoTime(), processorBegin = SYSTEM.getProcessCpuTime();
            work.on(segment);
            long end = System.nanoTime(), processorEnd = SYSTEM.getProcessCpuTime();
            return (end - begin) / 1e9 + " " + (processorEnd - processorBegin) / 1e9;
        } finally {
            Shared.deleteAll(folder);
        }
    }

    private static void appendChecked(Path log, LogSegment segment) throws Exception {
        ByteBuffer buffer = ByteBuffer.allocate(SET_BYTES);
        try (FileChannel channel = FileChannel.open(log)) {
            for (long at = 0; at < channel.size(); ) {
                buffer.clear();
                channel.read(buffer, at);
                buffer.flip();
                long lastOffset = -1;
                int size = 0;
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
                    batch.ensureValid();
                    size += batch.sizeInBytes();
                    lastOffset = batch.lastOffset();
                }
                buffer.limit(size);
                segment.append(lastOffset, MemoryRecords.readableRecords(buffer.slice()));
                at += size;
            }
        }
    }

    private static List<Chunk> read(Path log) throws Exception {
        List<Chunk> sets = new ArrayList<>();
        try (FileChannel channel = FileChannel.open(log)) {
            for (long at = 0; at < channel.size(); ) {
                ByteBuffer buffer = ByteBuffer.allocate((int) Math.min(2 * SET_BYTES, channel.size() - at));
                channel.read(buffer, at);
                buffer.flip();
                long lastOffset = -1;
                int size = 0;
                for (RecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
                    if (size > 0 && size + batch.sizeInBytes() > SET_BYTES)
                        break;
                    size += batch.sizeInBytes();
                    lastOffset = batch.lastOffset();
                }
                buffer.limit(size);
                sets.add(new Chunk(lastOffset, MemoryRecords.readableRecords(buffer.slice())));
                at += size;
            }
        }
        return sets;
    }
}
