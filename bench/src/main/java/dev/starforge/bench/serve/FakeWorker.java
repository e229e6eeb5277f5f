package dev.starforge.bench.serve;

import dev.starforge.serve.FakeEngine;
import dev.starforge.serve.Fixture;
import dev.starforge.text.json.Jackson;
import java.util.List;

/**
 * A worker with a fake engine as a process, for clients that are not written in Java. It prints its address, runs until its input
 * ends, and then prints the number of requests.
 */
final class FakeWorker {
    private FakeWorker() {}

    static void run(List<String> keys) throws Exception {
        try (Fixture fixture =
                new Fixture(new FakeEngine(), options -> keys.isEmpty() ? options : options.withKeys(keys))) {
            System.out.println(fixture.worker.uri());
            while (System.in.read() >= 0) {
                // runs until the client closes the input
            }
            System.out.println(Jackson.object().put("requests", fixture.engine.requests.size()));
        }
    }
}
