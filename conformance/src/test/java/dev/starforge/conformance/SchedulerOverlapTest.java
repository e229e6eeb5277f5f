package dev.starforge.conformance;

import static dev.starforge.conformance.TinyServer.await;
import static dev.starforge.conformance.TinyServer.request;
import static dev.starforge.conformance.TinyServer.text;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.conformance.TinyServer.Setup;
import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.tensor.device.DeviceException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Sinks receive a token before the next one is computed, or meanwhile if the device is asynchronous; the tokens are the same. Each
 * prompt here is one step, so that step n computes token n.
 */
@ParameterizedClass
@ValueSource(booleans = {false, true})
final class SchedulerOverlapTest {
    @Parameter
    private boolean asynchronous;

    private Setup setup() {
        return Setup.of("llama3", asynchronous);
    }

    private static int[] said(int[] prompt, int count) {
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3")) {
            return alone.greedy(prompt, count);
        }
    }

    @Test
    void launchesNextStepBeforeDeliveringTokensOnAsynchronousDevices() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            List<Integer> launched = new ArrayList<>();
            CollectingSink heard = new CollectingSink(count -> launched.add(server.device.steps.size()));
            server.submit(request(text(1, 5), 5), heard);
            assertThat(heard.finished()).isEqualTo(said(text(1, 5), 5));
            assertThat(launched).isEqualTo(asynchronous ? List.of(2, 3, 4, 5, 5) : List.of(1, 2, 3, 4, 5));
            assertThat(server.device.steps).hasSize(5);
        }
    }

    /** A token is delivered before the next one is computed, however long that takes. */
    @Test
    void deliversTokenBeforeReadingNext() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            server.scheduler.warmUp(); // what is read once is read
            int before = server.device.reads.get();
            List<Integer> read = new ArrayList<>();
            CollectingSink heard = new CollectingSink(count -> read.add(server.device.reads.get() - before));
            server.submit(request(text(1, 5), 5), heard);
            heard.finished();
            assertThat(read).containsExactly(1, 2, 3, 4, 5);
        }
    }

    @Test
    void stoppedSinkGetsNoMoreTokensAndReleasesBlocks() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            server.hold();
            int[] prompt = text(4, 20);
            CollectingSink enough = new CollectingSink(count -> count < 4);
            server.submit(request(prompt, 12), enough);
            CollectingSink beside = server.submit(request(text(5, 20), 12));
            server.device.resume();
            assertThat(enough.finished()).isEqualTo(Arrays.copyOf(said(prompt, 12), 4));
            assertThat(enough.ending()).isEqualTo(new FinishReason.Completed(StopReason.STOP_SEQUENCE, 0));
            assertThat(beside.finished()).isEqualTo(said(text(5, 20), 12));
            server.idle(setup());
            assertThat(enough.tokens).hasSize(4);
            assertThat(enough.endings).hasSize(1);
        }
    }

    /** If a sink stops at the last token, the finish reason is that of the sink. */
    @Test
    void sinkCanStopAtLastToken() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            CollectingSink enough = new CollectingSink(count -> count < 3);
            server.submit(request(text(4, 20), 3), enough);
            assertThat(enough.finished()).hasSize(3);
            server.idle(setup());
            assertThat(enough.endings).containsExactly(new FinishReason.Completed(StopReason.STOP_SEQUENCE, 0));
        }
    }

    @Test
    void sequenceCancelledDuringDeliveryGetsNoMoreTokens() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            CompletableFuture<SequenceHandle> job = new CompletableFuture<>();
            CollectingSink heard = new CollectingSink(count -> {
                if (count == 3) {
                    job.join().cancel();
                }
                return true;
            });
            job.complete(server.submit(request(text(6, 9), 12), heard));
            assertThat(heard.ending()).isEqualTo(new FinishReason.Cancelled());
            server.idle(setup());
            assertThat(heard.ids()).isEqualTo(said(text(6, 9), 3));
            assertThat(heard.endings).hasSize(1);
            assertThat(server.device.steps).hasSize(asynchronous ? 4 : 3);
        }
    }

    /** During the launch of step 4, token 3 is accepted; only a synchronous device has delivered it. */
    private CollectingSink heldInStepFour(TinyServer server) throws InterruptedException {
        server.device.pause();
        CollectingSink heard = server.submit(request(text(7, 9), 12));
        await("the first step", server.device::isHeld);
        server.device.allow(3);
        assertThat(heard.tokens).hasSize(asynchronous ? 2 : 3);
        return heard;
    }

    @Test
    void deliversAcceptedTokensBeforeFailedLaunch() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            CollectingSink heard = heldInStepFour(server);
            server.device.failWith(new DeviceException("a device that is lost"));
            failsAfterThree(server, heard);
        }
    }

    @Test
    void deliversAcceptedTokensBeforeFailedRead() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            CollectingSink heard = heldInStepFour(server);
            server.device.failReadsWith(new DeviceException("a device that is lost"));
            failsAfterThree(server, heard);
        }
    }

    private static void failsAfterThree(TinyServer server, CollectingSink heard) {
        server.device.resume();
        assertThat(heard.ending()).isInstanceOf(FinishReason.EngineFailed.class);
        assertThat(heard.ids()).isEqualTo(said(text(7, 9), 3));
        assertThat(heard.endings).hasSize(1);
    }

    @Test
    void closeDeliversTokensOfRunningStep() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            CollectingSink heard = heldInStepFour(server);
            Thread closing = Thread.ofPlatform().start(server.scheduler::close);
            await("the end of the step", () -> closing.getState() == Thread.State.WAITING);
            server.device.resume();
            closing.join(20_000);
            assertThat(heard.ending()).isInstanceOf(FinishReason.EngineFailed.class);
            assertThat(heard.ids()).isEqualTo(said(text(7, 9), 4));
            assertThat(server.scheduler.status().kvUsage()).isZero();
        }
    }
}
