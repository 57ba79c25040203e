import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.LongFunction;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/**
 * Segments to measure on, written by Kafka's own MemoryRecords: `Gen FOLDER SCALE NAME...` makes NAME-0/ of each.
 *
 * The same scale gives the same bytes. A value looks like JSON: a random id, an amount, words of a small vocabulary.
 */
public final class Gen {
    /** `keys`: keys are drawn at random from so many; 0: they ascend. */
    private record DataSet(String name, long mib, int recordsPerBatch, int valueBytes, String codec, int keys) {
        DataSet(String name, long mib, int recordsPerBatch, int valueBytes, String codec) {
            this(name, mib, recordsPerBatch, valueBytes, codec, 0);
        }
    }

    private static final List<DataSet> DATA_SETS = List.of(
        new DataSet("plain", 1024, 32, 400, "none"),
        new DataSet("lz4", 512, 128, 400, "lz4"),
        new DataSet("zstd", 256, 128, 400, "zstd"),
        new DataSet("single", 256, 1, 100, "none"),
        new DataSet("keyed", 1024, 32, 200, "none", 1_000_000),
        new DataSet("keyed-lz4", 512, 128, 200, "lz4", 1_000_000));
    private static final long BASE_TIMESTAMP = 1_700_000_000_000L;
    private static final int LEADER_EPOCH = 5;
    private static final int KEY_BYTES = 16;
    private static final int DRAWN_KEY_BYTES = 8;
    private static final int KEYED_SEGMENTS = 8;

    public static void main(String[] args) throws IOException {
        Path folder = Path.of(args[0]);
        double scale = Double.parseDouble(args[1]);
        Set<String> wanted = Set.of(Arrays.copyOfRange(args, 2, args.length));
        for (DataSet set : DATA_SETS)
            if (wanted.contains(set.name())) {
                Path dir = folder.resolve(set.name() + "-0");
                long limit = (long) (set.mib() * scale * (1 << 20));
                if (set.keys() == 0)
                    write(set, dir, limit);
                else
                    writeKeyed(set, dir, limit, scale);
            }
    }

    /** Written under another name first: a segment that is there is whole. */
    private static void write(DataSet set, Path dir, long limit) throws IOException {
        Files.createDirectories(dir);
        Path unfinished = dir.resolve("unfinished");
        SplittableRandom random = new SplittableRandom(1_000_003L + set.name().hashCode());
        byte[][] words = words(random);
        byte[] value = new byte[set.valueBytes()];
        ByteBuffer buffer = ByteBuffer.allocate(4 << 20);
        try (FileChannel file = FileChannel.open(unfinished, StandardOpenOption.CREATE,
                StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            for (long offset = 0; ; offset += set.recordsPerBatch()) {
                MemoryRecords batch = batch(set, buffer, offset, value, random, words, n -> key(n, KEY_BYTES));
                if (file.position() + batch.sizeInBytes() > limit && offset > 0)
                    break;
                batch.writeFullyTo(file);
            }
        }
        Files.move(unfinished, dir.resolve("00000000000000000000.log"));
    }

    /**
     * Segments with their index files, and an empty active one: a cleaner leaves that alone. The dir gets its name last.
     */
    private static void writeKeyed(DataSet set, Path dir, long limit, double scale) throws IOException {
        Path unfinished = Files.createTempDirectory(dir.getParent(), "unfinished");
        SplittableRandom random = new SplittableRandom(1_000_003L + set.name().hashCode());
        byte[][] words = words(random);
        byte[] value = new byte[set.valueBytes()];
        int keys = Math.max(1, (int) (set.keys() * scale));
        LongFunction<byte[]> drawn = offset -> key(random.nextInt(keys), DRAWN_KEY_BYTES);
        ByteBuffer buffer = ByteBuffer.allocate(4 << 20);
        long offset = 0;
        for (int n = 0; n <= KEYED_SEGMENTS; n++) {
            LogSegment segment = LogSegment.open(unfinished.toFile(), offset, new LogConfig(Map.of()), Time.SYSTEM, 0, false);
            while (n < KEYED_SEGMENTS) {
                MemoryRecords batch = batch(set, buffer, offset, value, random, words, drawn);
                if (segment.size() + batch.sizeInBytes() > limit / KEYED_SEGMENTS && segment.size() > 0)
                    break;
                segment.append(offset + set.recordsPerBatch() - 1, batch);
                offset += set.recordsPerBatch();
            }
            segment.onBecomeInactiveSegment();
            segment.close();
        }
        Files.move(unfinished, dir);
    }

    private static MemoryRecords batch(DataSet set, ByteBuffer buffer, long offset, byte[] value,
                                       SplittableRandom random, byte[][] words, LongFunction<byte[]> keyOf) {
        buffer.clear();
        MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.MAGIC_VALUE_V2,
            Compression.of(set.codec()).build(), TimestampType.CREATE_TIME, offset, RecordBatch.NO_TIMESTAMP,
            RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, LEADER_EPOCH);
        for (long i = offset; i < offset + set.recordsPerBatch(); i++) {
            fill(value, random, words);
            builder.append(BASE_TIMESTAMP + i / 4, keyOf.apply(i), value);
        }
        return builder.build();
    }

    private static byte[][] words(SplittableRandom random) {
        byte[][] words = new byte[2000][];
        for (int i = 0; i < words.length; i++) {
            words[i] = new byte[3 + random.nextInt(8)];
            for (int j = 0; j < words[i].length; j++)
                words[i][j] = (byte) ('a' + random.nextInt(26));
        }
        return words;
    }

    private static byte[] key(long number, int size) {
        return String.format("k%0" + (size - 1) + "d", number).getBytes(StandardCharsets.US_ASCII);
    }

    private static void fill(byte[] value, SplittableRandom random, byte[][] words) {
        int at = put(value, 0, String.format("{\"id\":\"%016x%016x\",\"amount\":%08d,\"text\":\"",
            random.nextLong(), random.nextLong(), random.nextLong(100_000_000L)).getBytes(StandardCharsets.US_ASCII));
        int end = value.length - 2;
        while (at < end) {
            double u = random.nextDouble();
            at = put(value, at, words[(int) (u * u * words.length)]);   // the first words more often
            if (at < end)
                value[at++] = ' ';
        }
        value[end] = '"';
        value[end + 1] = '}';
    }

    /** Copies what has room before the closing quote. */
    private static int put(byte[] value, int at, byte[] text) {
        int n = Math.min(text.length, value.length - 2 - at);
        System.arraycopy(text, 0, value, at, n);
        return at + n;
    }
}
