package dev.starforge.serve.pool.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.pool.supervise.WorkerCandidate;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.function.IntBinaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

final class WorkerRoutingTest {
    private static final int WORKERS = 4;
    private static final int CACHED = 12;
    private static final int REQUESTS = 2000;

    private final WorkerRouting routing = new WorkerRouting();

    private static WorkerCandidate worker(int index, int load) {
        return new WorkerCandidate("w" + index, "w" + index + "/1", load);
    }

    private static String text(int seed, int length) {
        Random random = new Random(seed);
        StringBuilder text = new StringBuilder();
        while (text.length() < length) {
            text.append((char) ('a' + random.nextInt(26)));
        }
        return text.toString();
    }

    @Test
    void aRequestGoesToTheWorkerWithItsPrefix() {
        List<WorkerCandidate> idle = List.of(worker(0, 0), worker(1, 0), worker(2, 0));
        String file = text(1, 1000);
        WorkerCandidate first = routing.choose("coder", file, idle);
        for (int i = 0; i < 20; i++) {
            assertThat(routing.choose("coder", file + text(i, 500), idle)).isEqualTo(first);
        }
        assertThat(routing.byPrefix()).isEqualTo(20);
        assertThat(Stream.of("other", "coder\nsomebody", "adapter")
                        .map(scope -> routing.choose(scope, file, idle))
                        .distinct())
                .as("the cache of another model, tenant or adapter has nothing of it")
                .hasSizeGreaterThan(1);
    }

    @Test
    void theLongestPrefixWins() {
        List<WorkerCandidate> both = List.of(worker(0, 0), worker(1, 0));
        String start = text(1, 640);
        routing.choose("m", start + text(2, 640), List.of(both.get(0)));
        routing.choose("m", start + text(3, 640), List.of(both.get(1)));
        assertThat(routing.choose("m", start + text(2, 640) + "x", both)).isEqualTo(both.get(0));
        assertThat(routing.choose("m", start + text(3, 640) + "x", both)).isEqualTo(both.get(1));
    }

    @Test
    void aLoadedWorkerIsAvoidedDespiteItsCache() {
        String file = text(1, 1000);
        routing.choose("m", file, List.of(worker(0, 0)));
        assertThat(routing.choose("m", file, List.of(worker(0, 4), worker(1, 0))))
                .isEqualTo(worker(0, 4));
        assertThat(routing.choose("m", file, List.of(worker(0, 5), worker(1, 0))))
                .isEqualTo(worker(1, 0));
    }

    @Test
    void aRestartedWorkerHasNoCache() {
        String file = text(1, 1000);
        routing.choose("m", file, List.of(worker(0, 0)));
        WorkerCandidate again = new WorkerCandidate("w0", "w0/2", 1);
        assertThat(routing.choose("m", file, List.of(again, worker(1, 0)))).isEqualTo(worker(1, 0));
    }

    @Test
    void withoutAPrefixTheLeastLoadedWorkersTakeTurns() {
        assertThat(routing.choose("m", "short", List.of(worker(0, 3), worker(1, 1), worker(2, 2))))
                .isEqualTo(worker(1, 1));
        List<WorkerCandidate> idle = List.of(worker(0, 0), worker(1, 0));
        assertThat(List.of(routing.choose("m", "a", idle), routing.choose("m", "b", idle)))
                .containsExactlyInAnyOrderElementsOf(idle);
    }

    /** Many people with a file each, in which they ask again and again; each worker can keep some of the files. */
    @Test
    void hitsAreFarMoreThanByChance() {
        Random random = new Random(5);
        List<WorkerCandidate> workers = List.of(worker(0, 0), worker(1, 0), worker(2, 0), worker(3, 0));
        double routed = hitRate((file, turn) -> {
            String text = text(file, 2000) + text(turn, 100);
            return workers.indexOf(routing.choose("m", text, workers));
        });
        double chance = hitRate((file, turn) -> random.nextInt(WORKERS));
        assertThat(routed).isGreaterThan(0.95);
        assertThat(chance).isLessThan(0.40);
    }

    private static double hitRate(IntBinaryOperator route) {
        Random random = new Random(3);
        List<Set<Integer>> caches = new ArrayList<>();
        for (int i = 0; i < WORKERS; i++) {
            caches.add(new LinkedHashSet<>());
        }
        int hits = 0;
        for (int turn = 0; turn < REQUESTS; turn++) {
            int file = random.nextInt(WORKERS * CACHED - 8);
            Set<Integer> cache = caches.get(route.applyAsInt(file, turn));
            hits += cache.remove(file) ? 1 : 0;
            cache.add(file);
            if (cache.size() > CACHED) {
                cache.remove(cache.iterator().next());
            }
        }
        return (double) hits / REQUESTS;
    }

    @Test
    void theRoutingKeyIsReadFromTheRequest() {
        assertThat(asked("{'model':'m','prompt':'abc'}")).isEqualTo(new RoutingKey("m", "abc\n"));
        assertThat(asked("{'prompt':['a','b']}")).isEqualTo(new RoutingKey("", "a\nb\n"));
        assertThat(asked("{'prompt':[1,22]}").text()).isEqualTo("1 22 ");
        assertThat(asked("{'messages':[{'role':'user','content':'hi'}]}").text())
                .isEqualTo("user\nhi\n");
        assertThat(asked("{'input_extra':[{'text':'e'}],'input_prefix':'p'}").text())
                .isEqualTo("e\np\n");
        for (String other : List.of("", "[]", "nonsense", "{'model':5}", "{'prompt':null}")) {
            assertThat(asked(other)).isEqualTo(new RoutingKey("", ""));
        }
    }

    private static RoutingKey asked(String json) {
        return RoutingKey.of(json.replace('\'', '"').getBytes(StandardCharsets.UTF_8));
    }
}
