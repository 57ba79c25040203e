import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/**
 * Kafka's own appending: `Append LOG FOLDER PASSES` prints the seconds of appending all batches of LOG to a new segment
 * in FOLDER, by LogSegment.append in sets of about 1 MiB, and of flushing it; one line a pass.
 *
 * Nothing is validated. The sets are in memory before the clock runs, as those of a fetch are.
 */
public final class Append {
    private static final int SET_BYTES = 1 << 20;

    private record Chunk(long lastOffset, MemoryRecords records) { }

    public static void main(String[] args) throws Exception {
        List<Chunk> sets = read(Path.of(args[0]));
        for (int pass = 0; pass < Integer.parseInt(args[2]); pass++)
            append(sets, Path.of(args[1]));
    }

    private static void append(List<Chunk> sets, Path parent) throws Exception {
        Path folder = Files.createTempDirectory(parent, "append");
        try (LogSegment segment = LogSegment.open(folder.toFile(), 0, new LogConfig(Map.of()), Time.SYSTEM, false, 0, false, "")) {
            long begin = System.nanoTime();
            for (Chunk set : sets)
                segment.append(set.lastOffset(), set.records());
            long written = System.nanoTime();
            segment.flush();
            System.out.println((written - begin) / 1e9 + " " + (System.nanoTime() - begin) / 1e9);
        } finally {
            Shared.deleteAll(folder);
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
