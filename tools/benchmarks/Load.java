import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A steady producer, and a consumer at the tail: `Load BOOTSTRAP TOPIC RATE RECORD_BYTES WARM_SECONDS SECONDS`.
 *
 * Prints "produce" and "fetch" with the median and the 99th percentile in microseconds: from send to acknowledgement,
 * and from send to the consumer's poll. A record that is late because the one before it was counts from when it was due.
 */
final class Load {
    private final long[] acknowledged;
    private final long[] polled;
    private final long warmUntil;
    private final long until;

    private Load(int most, long warmUntil, long until) {
        acknowledged = new long[most];
        polled = new long[most];
        this.warmUntil = warmUntil;
        this.until = until;
    }

    public static void main(String[] words) throws Exception {
        int rate = Integer.parseInt(words[2]);
        long now = System.nanoTime();
        long warmUntil = now + Long.parseLong(words[4]) * 1_000_000_000L;
        long until = warmUntil + Long.parseLong(words[5]) * 1_000_000_000L;
        Load load = new Load((int) ((until - now) / 1_000_000_000L + 10) * rate, warmUntil, until);
        TopicPartition partition = new TopicPartition(words[1], 0);
        Thread consumer = new Thread(() -> load.consume(words[0], partition));
        consumer.start();
        load.produce(words[0], partition, rate, Integer.parseInt(words[3]));
        consumer.join();
        tell("produce", load.acknowledged);
        tell("fetch", load.polled);
    }

    private void produce(String bootstrap, TopicPartition partition, int rate, int bytes) throws InterruptedException {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "acks", "all", "linger.ms", 0);
        byte[] padding = new byte[bytes];
        int[] count = {0};
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (long due = System.nanoTime(); due < until; due += 1_000_000_000L / rate) {
                long wait = due - System.nanoTime();
                if (wait > 0) {
                    Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
                }
                long sent = due;
                byte[] value = ByteBuffer.wrap(padding.clone()).putLong(sent).array();
                producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), null, value),
                    (metadata, error) -> {
                        if (error != null) {
                            throw new IllegalStateException(error);
                        }
                        if (sent >= warmUntil) {
                            acknowledged[count[0]++] = System.nanoTime() - sent;
                        }
                    });
            }
        }
    }

    private void consume(String bootstrap, TopicPartition partition) {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", false);
        int count = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            while (System.nanoTime() < until) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    long sent = ByteBuffer.wrap(record.value()).getLong();
                    if (sent >= warmUntil) {
                        polled[count++] = System.nanoTime() - sent;
                    }
                }
            }
        }
    }

    private static void tell(String what, long[] nanoseconds) {
        long[] known = Arrays.stream(nanoseconds).filter(each -> each > 0).sorted().toArray();
        long median = known[known.length / 2];
        long high = known[(int) (known.length * 0.99)];
        System.out.printf("%s\t%d\t%d\t%d%n", what, known.length, median / 1000, high / 1000);
    }
}
