package dev.starforge.serve;

import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import tools.jackson.databind.JsonNode;

/** A request as some client sent it, line by line, and what it was answered, where that was recorded. */
record Recorded(String name, JsonNode exchange) {
    static List<Recorded> all(String client) throws IOException {
        Path file = Path.of("src/test/resources/exchanges", client + ".json");
        return Jackson.JSON
                .readTree(Files.readString(file))
                .valueStream()
                .map(node -> new Recorded(node.get("name").stringValue(), node))
                .toList();
    }

    static Recorded one(String client, String name) throws IOException {
        return all(client).stream()
                .filter(each -> each.name.equals(name))
                .findFirst()
                .orElseThrow();
    }

    /** Sends it byte for byte. */
    RawClient.Reply replay(RawClient client) throws IOException {
        StringBuilder head = new StringBuilder(exchange.get("request").stringValue()).append("\r\n");
        exchange.get("headers")
                .forEach(header -> head.append(header.stringValue()).append("\r\n"));
        client.send(head.append("\r\n").toString());
        client.socket()
                .getOutputStream()
                .write(exchange.get("body").stringValue().getBytes(StandardCharsets.UTF_8));
        return client.reply();
    }
}
