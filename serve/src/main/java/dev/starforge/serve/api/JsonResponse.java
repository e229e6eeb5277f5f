package dev.starforge.serve.api;

import dev.starforge.serve.http.ResponseStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.io.JsonStringEncoder;

/** A JSON response that is written in parts: a short one is sent whole, a long one is streamed and never in memory. */
public final class JsonResponse {
    private static final int PART = 32 << 10;

    private final Call call;
    private final StringBuilder part = new StringBuilder();
    private @Nullable ResponseStream stream;

    JsonResponse(Call call) {
        this.call = call;
    }

    /** Writes JSON as it is. */
    public JsonResponse raw(String json) throws IOException {
        part.append(json);
        return sendFullPart();
    }

    public JsonResponse raw(long number) throws IOException {
        part.append(number);
        return sendFullPart();
    }

    /** Writes a part of a string, without quotation marks; it must not end within a character. */
    public JsonResponse text(String text) throws IOException {
        JsonStringEncoder.getInstance().quoteAsString(text, part);
        return sendFullPart();
    }

    private JsonResponse sendFullPart() throws IOException {
        if (part.length() >= PART) {
            ResponseStream open = stream;
            if (open == null) {
                open = call.stream("application/json");
                stream = open;
            }
            open.write(takePart());
        }
        return this;
    }

    private byte[] takePart() {
        byte[] bytes = part.toString().getBytes(StandardCharsets.UTF_8);
        part.setLength(0);
        return bytes;
    }

    /** Ends the response. */
    public void finish() throws IOException {
        ResponseStream open = stream;
        if (open == null) {
            call.respond(200, "application/json", takePart());
        } else {
            open.write(takePart());
            open.finish();
        }
    }
}
