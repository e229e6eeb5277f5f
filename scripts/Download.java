import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;

/** Downloads a file on machines without curl and wget: {@code java Download.java URL FILE}. */
final class Download {
    private Download() {}

    public static void main(String[] args) throws IOException {
        try (InputStream in = URI.create(args[0]).toURL().openStream()) {
            Files.copy(in, Path.of(args[1]));
        }
    }
}
