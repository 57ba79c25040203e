import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.serialization.*;

/** Answers each line `format hex` with what Kafka's own deserializer makes of the bytes: its text in hex, or `refused`. */
class Deserialize {
    public static void main(String[] args) throws Exception {
        Map<String, Deserializer<?>> all = Map.of(
            "string", new StringDeserializer(), "short", new ShortDeserializer(), "int", new IntegerDeserializer(),
            "long", new LongDeserializer(), "float", new FloatDeserializer(), "double", new DoubleDeserializer(),
            "boolean", new BooleanDeserializer(), "uuid", new UUIDDeserializer(), "void", new VoidDeserializer());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            try {
                Object value = all.get(words[0]).deserialize("t", HexFormat.of().parseHex(words[1]));
                byte[] text = String.valueOf(value).getBytes(StandardCharsets.UTF_8);
                out.append("is ").append(HexFormat.of().formatHex(text)).append('\n');
            } catch (RuntimeException refusal) {
                out.append("refused\n");
            }
        }
        System.out.print(out);
    }
}
