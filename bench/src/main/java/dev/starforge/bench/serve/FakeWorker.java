package dev.starforge.bench.serve;

import dev.starforge.data.Jackson;
import dev.starforge.serve.FakeEngine;
import dev.starforge.serve.Fixture;
import java.util.List;
import java.util.Optional;

/**
 * A worker over the fake engine as a program of its own, for clients that are not written in Java: it prints its address,
 * and after the end of its input what the engine was asked. The only argument is an API key.
 */
final class FakeWorker {
    private FakeWorker() {}

    public static void main(String[] args) throws Exception {
        Optional<String> key = List.of(args).stream().findFirst();
        try (Fixture fixture = new Fixture(
                new FakeEngine(),
                options -> key.map(each -> options.withKeys(List.of(each))).orElse(options))) {
            System.out.println(fixture.worker.uri());
            while (System.in.read() >= 0) {
                // until nobody needs it any more
            }
            System.out.println(Jackson.object().put("requests", fixture.engine.requests.size()));
        }
    }
}
