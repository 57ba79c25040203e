import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;

import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;

/**
 * What a broker's settings may be, by its own classes. With the word `table`: a row for each setting that has a type or
 * a validator (tools/extract_settings.py). Else stdin has settings, each as NAME=VALUE and a NUL, and the files apart by
 * a line feed; an answer begins with > (Kafka logs, too) and is the class of the exception and its message, or an empty line.
 */
public class ServerSettings {
    public static void main(String[] words) throws Exception {
        if (words.length > 0) {
            ConfigDef definition = (ConfigDef) KafkaConfig.class.getMethod("configDef").invoke(null);
            for (ConfigKey key : definition.configKeys().values()) System.out.println(">" + row(key));
            return;
        }
        Scanner files = new Scanner(System.in, StandardCharsets.UTF_8).useDelimiter("\n");
        while (files.hasNext()) System.out.println(">" + refusal(files.next()));
    }

    static String refusal(String file) {
        Properties settings = new Properties();
        for (String line : file.split("\0")) {
            int at = line.indexOf('=');
            settings.setProperty(line.substring(0, at), line.substring(at + 1));
        }
        try {
            KafkaConfig.fromProps(settings, false);
            return "";
        } catch (Exception error) {
            return error.getClass().getSimpleName() + "\t" + error.getMessage().replace("\n", "\\n");
        }
    }

    static String row(ConfigKey key) throws Exception {
        List<String> fields = new ArrayList<>(List.of(key.name, key.type.name().toLowerCase()));
        boolean isRequired = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
        fields.add(isRequired ? "required=true" : "default=" + key.defaultValue);
        Object validator = key.validator;
        fields.add("validator=" + (validator == null ? "" : validator.getClass().getSimpleName()));
        for (String name : List.of("min", "max", "validStrings", "isEmptyAllowed", "isNullAllowed", "validString"))
            if (find(validator, name) != null)
                fields.add(name + "=" + text(find(validator, name)));
        return String.join("\t", fields);
    }

    static String text(Object value) throws Exception {
        if (value instanceof Collection<?> values) return String.join(",", values.stream().map(String::valueOf).toList());
        return value instanceof ConfigDef.Validator ? text(find(value, "validStrings")) : value.toString();
    }

    static Object find(Object value, String name) throws Exception {
        if (value == null) return null;
        for (Field field : value.getClass().getDeclaredFields())
            if (field.getName().equals(name)) {
                field.setAccessible(true);
                return field.get(value);
            }
        return null;
    }
}
