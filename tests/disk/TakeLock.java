import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Takes a file's lock as Kafka's FileLock does, says whether it has it, and holds it until stdin ends. */
public class TakeLock {
    public static void main(String[] args) throws Exception {
        FileChannel channel = FileChannel.open(
            Path.of(args[0]), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        FileLock lock = channel.tryLock();
        System.out.println(lock == null ? "refused" : "locked");
        while (System.in.read() >= 0) { }
    }
}
