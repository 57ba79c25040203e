import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Probe BOOTSTRAP read|write|transactions TOPIC-PARTITION...
 *
 * What Kafka's own consumer is served of each partition, one JSON line each. Where a batch cannot be read the consumer
 * goes on behind that offset, as a person would, and the offset is in "stuck". With `write` three records are written
 * then (with `transactions` one more in a transaction), and the partition is read again.
 */
public class Probe {
    static final int THREADS = 4;
    static final long SILENT_MS = 1500;
    static final long SILENT_AGAIN_MS = 300;
    static final long READ_LIMIT_MS = 30000;
    /** A busy machine: a broker that has just started has not told all of its leaders yet. */
    static final long EARLY_MS = 20000;
    static final long BEGAN_MS = System.currentTimeMillis();

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        ThreadLocal<KafkaConsumer<byte[], byte[]>> consumers = ThreadLocal.withInitial(() -> consumer(args[0]));
        for (int i = 2; i < args.length; i++) {
            int dash = args[i].lastIndexOf('-');
            String topic = args[i].substring(0, dash);
            TopicPartition partition = new TopicPartition(topic, Integer.parseInt(args[i].substring(dash + 1)));
            pool.submit(() -> ask(consumers.get(), args[0], args[1], partition));
        }
        pool.shutdown();
        pool.awaitTermination(220, TimeUnit.SECONDS);
        System.exit(0);
    }

    static void ask(KafkaConsumer<byte[], byte[]> consumer, String bootstrap, String how, TopicPartition partition) {
        read(consumer, "read", partition);
        if (!how.equals("read") && !partition.topic().startsWith("__")) {
            write(bootstrap, how.equals("transactions"), partition);
            read(consumer, "again", partition);
        }
    }

    /** A consumer of its own for each thread: making one takes longer than reading a small partition. */
    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("auto.offset.reset", "none");
        config.put("fetch.max.wait.ms", 50);
        config.put("default.api.timeout.ms", 6000);
        config.put("request.timeout.ms", 5000);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void read(KafkaConsumer<byte[], byte[]> consumer, String phase, TopicPartition partition) {
        StringBuilder records = new StringBuilder();
        StringBuilder stuck = new StringBuilder();
        long start = -1;
        long end = -1;
        String error = null;
        boolean isComplete = false;
        try {
            List<TopicPartition> one = List.of(partition);
            start = beginningOffset(consumer, one, partition);
            end = consumer.endOffsets(one).get(partition);
            consumer.assign(one);
            isComplete = readBetween(consumer, partition, start, end, records, stuck);
        } catch (RuntimeException problem) {
            error = problem.toString();
        }
        say("{\"phase\":\"" + phase + "\",\"partition\":\"" + partition + "\",\"start\":" + start + ",\"end\":" + end
            + ",\"stuck\":[" + stuck + "],\"complete\":" + isComplete + ",\"error\":" + quoted(error) + ",\"records\":[" + records + "]}");
    }

    static long beginningOffset(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> one, TopicPartition partition) {
        boolean isEarly = System.currentTimeMillis() - BEGAN_MS < EARLY_MS;
        try {
            return consumer.beginningOffsets(one).get(partition);
        } catch (TimeoutException problem) {
            if (!isEarly)
                throw problem;
            return consumer.beginningOffsets(one).get(partition);
        }
    }

    /** Whether it came to the end. */
    static boolean readBetween(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long start, long end,
                               StringBuilder records, StringBuilder stuck) {
        long position = start;
        long began = System.currentTimeMillis();
        long moved = began;
        long limit = SILENT_MS;
        long again = -1;
        consumer.seek(partition, start);
        while (position < end) {
            boolean isStuck = false;
            try {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100)))
                    add(records, "[" + record.offset() + "," + digest(record) + "]");
                long now = consumer.position(partition);
                if (now != position) {
                    moved = System.currentTimeMillis();
                    limit = SILENT_MS;
                }
                position = now;
            } catch (RuntimeException problem) {
                isStuck = true;
            }
            boolean isSilent = System.currentTimeMillis() - moved > limit;
            if (isStuck || isSilent) {
                limit = isSilent ? SILENT_AGAIN_MS : limit;
                // After an exception the same offset may be readable: the batch before it was not as long as it says.
                if (position != again)
                    add(stuck, Long.toString(position));
                if (isSilent || position == again)
                    position++;
                again = position;
                consumer.seek(partition, position);
                moved = System.currentTimeMillis();
            }
            if (System.currentTimeMillis() - began > READ_LIMIT_MS)
                return false;
        }
        return true;
    }

    static void write(String bootstrap, boolean inTransaction, TopicPartition partition) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("acks", "all");
        config.put("delivery.timeout.ms", 15000);
        config.put("request.timeout.ms", 12000);
        config.put("max.block.ms", 15000);
        config.put("linger.ms", 0);
        StringBuilder offsets = new StringBuilder();
        String error = null;
        try {
            send(config, 3, partition, offsets);
            if (inTransaction) {
                config.put("transactional.id", "probe-" + partition);
                send(config, 1, partition, offsets);
            }
        } catch (Exception problem) {
            error = problem.toString();
        }
        say("{\"phase\":\"write\",\"partition\":\"" + partition + "\",\"offsets\":[" + offsets + "],\"error\":"
            + quoted(error) + "}");
    }

    static void send(Map<String, Object> config, int count, TopicPartition to, StringBuilder offsets) throws Exception {
        boolean inTransaction = config.containsKey("transactional.id");
        var bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, bytes, bytes)) {
            if (inTransaction) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (int i = 0; i < count; i++) {
                byte[] key = ("written-" + i).getBytes();
                var record = new ProducerRecord<>(to.topic(), to.partition(), key, "afterwards".getBytes());
                add(offsets, Long.toString(producer.send(record).get().offset()));
            }
            if (inTransaction)
                producer.commitTransaction();
        }
    }

    /** As in records_on_disk.py. */
    static long digest(ConsumerRecord<byte[], byte[]> record) {
        CRC32 crc = new CRC32();
        if (record.key() != null)
            crc.update(record.key());
        crc.update(1);
        if (record.value() != null)
            crc.update(record.value());
        for (Header header : record.headers()) {
            crc.update(header.key().getBytes());
            if (header.value() != null)
                crc.update(header.value());
        }
        crc.update(Long.toString(record.timestamp()).getBytes());
        return crc.getValue();
    }

    static void add(StringBuilder to, String item) {
        to.append(to.length() == 0 ? "" : ",").append(item);
    }

    static String quoted(String text) {
        if (text == null)
            return "null";
        return "\"" + text.replace('\\', '/').replace('"', '\'').replaceAll("\\s", " ") + "\"";
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
