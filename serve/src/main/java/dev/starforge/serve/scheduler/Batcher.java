package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.Chosen;
import dev.starforge.model.generate.Engine.Piece;
import dev.starforge.model.generate.StopReason;
import dev.starforge.model.kv.BlockPool;
import dev.starforge.model.kv.OutOfBlocksException;
import dev.starforge.serve.engine.Ending;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.Token;
import dev.starforge.tensor.op.Decoding;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * What each step computes. Every running text has its next token; then prompts get what {@link PieceSize} allows, first come
 * first served. When blocks run out, the youngest gives its own back and is computed again later. Belongs to one thread.
 */
final class Batcher {
    private final ServedModel model;
    private final Engine engine;
    private final LongSupplier nanos;
    private final Deque<Text> waiting = new ArrayDeque<>();
    private final List<Text> running = new ArrayList<>(); // the oldest first
    private final Deque<Integer> histories = new ArrayDeque<>();
    private final PieceSize pieceSize = new PieceSize();
    private final Embedder embedder;
    private int turn;
    private long preemptions;

    Batcher(ServedModel model, LongSupplier nanos) {
        this.model = model;
        this.engine = model.engine();
        this.nanos = nanos;
        embedder = new Embedder(engine, pieceSize, nanos);
        IntStream.range(0, model.sequences()).forEach(histories::add);
    }

    void add(Text text) {
        waiting.add(text);
    }

    void add(Embedder.Request request) {
        embedder.add(request);
    }

    boolean idle() {
        return waiting.isEmpty() && running.isEmpty() && embedder.idle();
    }

    boolean uses(Engine.Adapter adapter) {
        return Stream.concat(waiting.stream(), running.stream()).anyMatch(text -> text.adapter.equals(adapter))
                || embedder.uses(adapter);
    }

    EngineStatus status(boolean alive) {
        BlockPool.Figures blocks = engine.figures();
        return new EngineStatus(
                alive,
                running.size() + embedder.running(),
                waiting.size() + embedder.waiting(),
                model.sequences() - running.size(),
                (double) blocks.held() / model.blocks(),
                model.weightBytes() + engine.reservedBytes(),
                blocks.queries(),
                blocks.hits(),
                preemptions);
    }

    /** One step, with what is there; then one of texts that become vectors. */
    void step() {
        dropCancelled();
        admit();
        List<Piece> pieces = pieces();
        if (!pieces.isEmpty()) {
            generate(pieces);
        }
        if (!embedder.idle()) {
            int prompts = pieces.stream()
                    .mapToInt(Piece::count)
                    .filter(count -> count > 1)
                    .sum();
            embedder.step(pieceSize.tokensBeside(prompts), promised() + running.size());
        }
    }

    private void generate(List<Piece> pieces) {
        List<Text> finishing = pieces.stream()
                .filter(piece -> piece.wanted() > 0)
                .map(piece -> running.stream()
                        .filter(text -> text.sequence().orElseThrow() == piece.sequence())
                        .findFirst()
                        .orElseThrow())
                .toList();
        int top = finishing.stream()
                .mapToInt(text -> Math.max(0, text.request.logprobs()))
                .max()
                .orElse(0);
        Chosen chosen;
        try {
            chosen = compute(pieces, finishing, top);
        } catch (OutOfBlocksException full) {
            preempt(full);
            return;
        }
        for (int row = 0; row < finishing.size(); row++) {
            Text text = finishing.get(row);
            if (text.request.maxTokens() == 0) {
                end(text, new Ending.Finished(StopReason.MAX_TOKENS, text.cachedTokens()));
            } else {
                deliver(text, token(chosen, row, top, text.request.logprobs()));
            }
        }
    }

    private void dropCancelled() {
        List<Text> all = Stream.concat(waiting.stream(), running.stream())
                .filter(Text::cancelled)
                .toList();
        all.forEach(text -> end(text, new Ending.Cancelled()));
    }

    /** Those that wait join while there is a slot, and room for their whole prompt beside what runs. */
    private void admit() {
        while (!waiting.isEmpty() && running.size() < model.sequences()) {
            Text next = waiting.getFirst();
            BlockPool.Figures blocks = engine.figures();
            int needed = Math.ceilDiv(next.length() + 1, Engine.BLOCK);
            if (!running.isEmpty() && needed + promised() > blocks.free() + blocks.cached()) {
                return;
            }
            next.begin(engine);
            if (next.request.sampling().penalizes()) {
                next.history(histories.pop());
                engine.remember(next.history(), next.request.prompt(), next.generatedIds());
            }
            running.add(waiting.removeFirst());
        }
    }

    /** Blocks that running prompts still want. */
    private int promised() {
        return running.stream()
                .mapToInt(text -> Math.ceilDiv(text.sequence().orElseThrow().pending(), Engine.BLOCK))
                .sum();
    }

    /** The pieces of a step, in the order of the texts; all are of one rotary regime, and regimes take turns. */
    private List<Piece> pieces() {
        List<Piece> pieces = new ArrayList<>();
        int budget = pieceSize.tokens();
        int[] regimes = running.stream()
                .mapToInt(text -> text.sequence().orElseThrow().regime())
                .distinct()
                .toArray();
        turn = (turn + 1) % Math.max(1, regimes.length);
        for (Text text : running) {
            Engine.Sequence sequence = text.sequence().orElseThrow();
            int pending = sequence.pending();
            if (sequence.regime() != regimes[turn]) {
                continue;
            }
            int count = pending == 1 ? 1 : Math.min(pending, budget);
            if (count > 0) {
                budget -= pending == 1 ? 0 : count;
                pieces.add(new Piece(sequence, count, count == pending ? 1 : 0));
            }
        }
        return pieces;
    }

    private Chosen compute(List<Piece> pieces, List<Text> finishing, int top) {
        long begin = nanos.getAsLong();
        Chosen chosen = engine.step(pieces, finishing.stream().map(Text::choice).toList(), top);
        int tokens = pieces.stream().mapToInt(Piece::count).sum();
        if (tokens > 2 * pieces.size()) { // mostly prompts
            pieceSize.took(nanos.getAsLong() - begin, tokens);
        }
        return chosen;
    }

    private void preempt(OutOfBlocksException full) {
        if (embedder.suspend()) {
            preemptions++;
            return;
        }
        Text youngest = running.getLast();
        if (running.size() == 1) {
            end(youngest, new Ending.Failed(Ending.Kind.OUT_OF_MEMORY, String.valueOf(full.getMessage())));
            return;
        }
        preemptions++;
        leave(youngest);
        waiting.addFirst(youngest);
    }

    private static Token token(Chosen chosen, int row, int top, int wanted) {
        List<Token.Candidate> candidates = new ArrayList<>();
        for (int i = 0; i < wanted; i++) {
            candidates.add(new Token.Candidate(chosen.topIds()[row * top + i], chosen.topLogprobs()[row * top + i]));
        }
        float logprob = wanted == GenerationRequest.NO_LOGPROBS ? 0 : chosen.logprobs()[row];
        return new Token(chosen.tokens()[row], logprob, candidates);
    }

    private void deliver(Text text, Token token) {
        if (text.cancelled()) {
            end(text, new Ending.Cancelled());
        } else if (token.id() == Decoding.NO_TOKEN) {
            end(text, new Ending.Failed(Ending.Kind.INFERENCE_FAILED, "no token can follow: logits are not finite"));
        } else if (model.endTokens().contains(token.id())
                || text.request.stopTokens().contains(token.id())) {
            end(text, new Ending.Finished(StopReason.EOS, text.cachedTokens()));
        } else {
            text.add(token.id());
            hear(text, token);
        }
    }

    private void hear(Text text, Token token) {
        boolean more;
        try {
            more = text.sink.token(token);
        } catch (RuntimeException broken) {
            end(text, new Ending.Failed(Ending.Kind.INFERENCE_FAILED, "the token could not be told: " + broken));
            return;
        }
        if (!more) {
            end(text, new Ending.Finished(StopReason.STOP_SEQUENCE, text.cachedTokens()));
        } else if (text.generated() == text.request.maxTokens()) {
            end(text, new Ending.Finished(StopReason.MAX_TOKENS, text.cachedTokens()));
        }
    }

    /** The engine ends: so does everything. */
    void endAll(Ending ending) {
        Stream.concat(waiting.stream(), running.stream()).toList().forEach(text -> end(text, ending));
        embedder.endAll("the engine has ended");
    }

    private void end(Text text, Ending ending) {
        waiting.remove(text);
        leave(text);
        text.sink.end(ending);
    }

    private void leave(Text text) {
        running.remove(text);
        text.suspend();
        if (text.history() >= 0) {
            histories.push(text.history());
            text.history(Decoding.NO_HISTORY);
        }
    }
}
