import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/**
 * Kafka's own answers, many from one JVM: a JSON request a line on stdin, a JSON answer a line on stdout.
 *
 *   {"args": [...]}      DumpLogSegments with these arguments: stdout, stderr, exit, and thrown (class, message)
 *                        where an exception ended the tool, as it would have ended the process
 *   {"batch": {...}}     one batch or message set from Kafka's MemoryRecordsBuilder: hex
 *
 * Java cannot change its working directory, so relative paths are relative to the one the process was started in:
 * the caller lays the files of each question there. Paths are then printed as the tool prints them, untouched.
 */
public final class DumpServer {
    static final ObjectMapper JSON = new ObjectMapper();

    /** What becomes of System.exit in the tool. An Error, so that no catch clause of Kafka's takes it for a failure. */
    static final class Exited extends Error {
        final int status;

        Exited(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        org.slf4j.LoggerFactory.getLogger("");   // says on stderr, once, that nothing is bound: not in an answer
        Exit.Procedure exit = (status, message) -> {
            throw new Exited(status);
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode request = JSON.readTree(line);
                if (request.has("batch"))
                    answer.put("hex", HexFormat.of().formatHex(batch(request.get("batch"))));
                else
                    dump(request.get("args"), answer);
            } catch (Throwable t) {
                thrown(t, answer);
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    static void thrown(Throwable t, ObjectNode answer) {
        answer.putObject("thrown").put("class", t.getClass().getName()).put("message", t.getMessage());
    }

    static void dump(JsonNode words, ObjectNode answer) {
        String[] args = new String[words.size()];
        for (int i = 0; i < args.length; i++)
            args[i] = words.get(i).asText();
        ByteArrayOutputStream stdout = new ByteArrayOutputStream(), stderr = new ByteArrayOutputStream();
        System.setOut(new PrintStream(stdout, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, false, StandardCharsets.UTF_8));
        int status = 0;
        try {
            DumpLogSegments.main(args);
        } catch (Exited e) {
            status = e.status;
        } catch (Throwable t) {
            status = 1;   // main lets it through, and so the JVM ends with 1
            thrown(t, answer);
        }
        System.out.flush();
        System.err.flush();
        answer.put("stdout", stdout.toString(StandardCharsets.UTF_8));
        answer.put("stderr", stderr.toString(StandardCharsets.UTF_8));
        answer.put("exit", status);
    }

    /** Fields as in kafka.py; keys, values and header values are hex or null. */
    static byte[] batch(JsonNode b) {
        byte magic = (byte) b.path("magic").asInt(2);
        long baseOffset = b.path("base_offset").asLong(0);
        TimestampType type = magic == RecordBatch.MAGIC_VALUE_V0 ? TimestampType.NO_TIMESTAMP_TYPE
            : b.hasNonNull("log_append_time") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        boolean control = b.path("control").asBoolean(false);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(4096), magic,
            Compression.of(CompressionType.forName(b.path("codec").asText("none"))).build(), type, baseOffset,
            b.path("log_append_time").asLong(RecordBatch.NO_TIMESTAMP),
            b.path("producer_id").asLong(RecordBatch.NO_PRODUCER_ID),
            (short) b.path("producer_epoch").asInt(RecordBatch.NO_PRODUCER_EPOCH),
            b.path("base_sequence").asInt(RecordBatch.NO_SEQUENCE),
            b.path("transactional").asBoolean(false), control,
            b.path("partition_leader_epoch").asInt(RecordBatch.NO_PARTITION_LEADER_EPOCH), Integer.MAX_VALUE,
            b.path("delete_horizon_ms").asLong(RecordBatch.NO_TIMESTAMP));
        for (JsonNode r : b.get("records")) {
            long offset = r.get("offset").asLong();
            Header[] headers = new Header[r.path("headers").size()];
            for (int i = 0; i < headers.length; i++)
                headers[i] = new RecordHeader(r.get("headers").get(i).get(0).asText(), bytes(r.get("headers").get(i).get(1)));
            long timestamp = r.path("timestamp").asLong(RecordBatch.NO_TIMESTAMP);
            byte[] key = bytes(r.path("key")), value = bytes(r.path("value"));
            if (control)
                builder.appendControlRecordWithOffset(offset, new SimpleRecord(timestamp, key, value, headers));
            else
                builder.appendWithOffset(offset, timestamp, key, value, headers);
        }
        if (b.hasNonNull("last_offset"))
            builder.overrideLastOffset(b.get("last_offset").asLong());
        ByteBuffer buffer = builder.build().buffer();
        byte[] result = new byte[buffer.remaining()];
        buffer.get(result);
        return result;
    }

    static byte[] bytes(JsonNode hex) {
        return hex.isTextual() ? HexFormat.of().parseHex(hex.asText()) : null;
    }
}
