package dev.starforge.train.eval;

import dev.starforge.model.Model;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.corpus.Corpus;
import dev.starforge.train.corpus.Example;
import dev.starforge.train.run.Trainer;
import dev.starforge.train.run.TrainerSettings;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.node.ObjectNode;

/** Negative log-likelihood of every document: nats of its target tokens, and how many bytes and tokens these are. */
record Likelihood(double[] nats, double[] bytes, double[] tokens) {
    /**
     * Of a sample of windows.
     *
     * @param name of the model, for the progress
     * @param documents those that the sample's windows are of, sorted
     */
    static Likelihood of(
            String name, Model model, Evaluation.Setup setup, Corpus corpus, Corpus.Sample sample, int[] documents) {
        int count = documents.length;
        Likelihood all = new Likelihood(new double[count], new double[count], new double[count]);
        Countdown countdown =
                new Countdown(name + ", likelihood", "tokens", sample.tokens(), setup.nanoTime(), setup.progress());
        long done = 0;
        try (Trainer trainer = new Trainer(
                model,
                Map.of(),
                setup.device(),
                setup.precision(),
                setup.fallback(),
                TrainerSettings.of(setup.config(), Checkpointing.OFF))) {
            for (int window : sample.windows()) {
                int d = Arrays.binarySearch(documents, corpus.document(window));
                Example example = corpus.read(List.of(window), 0).getFirst();
                float[] losses = trainer.tokenLosses(List.of(example)).getFirst();
                for (int i = 1; i < losses.length; i++) {
                    if (example.labels()[i] != Example.IGNORED) {
                        all.nats[d] += losses[i];
                        all.bytes[d] += bytes(setup.tokenizer(), example.ids()[i]);
                        all.tokens[d]++;
                    }
                }
                done += losses.length;
                countdown.at(done);
            }
        }
        return all;
    }

    private static int bytes(Tokenizer tokenizer, int id) {
        return tokenizer.isSpecial(id)
                ? 0
                : tokenizer.decode(new int[] {id}, false).getBytes(StandardCharsets.UTF_8).length;
    }

    void report(ObjectNode column) {
        Bootstrap mean = Bootstrap.ratio(nats, tokens);
        Figures.put(
                column,
                "perplexity",
                new Bootstrap(Math.exp(mean.value()), Math.exp(mean.low()), Math.exp(mean.high())));
        Figures.put(column, "bits_per_byte", Bootstrap.ratio(bits(nats), bytes));
    }

    /** The difference to the base, document by document. */
    void compare(ObjectNode node, Likelihood base) {
        double[] difference = new double[nats.length];
        Arrays.setAll(difference, d -> nats[d] - base.nats[d]);
        Figures.put(node, "perplexity", Bootstrap.perplexities(nats, base.nats, base.tokens));
        Figures.put(node, "bits_per_byte", Bootstrap.ratio(bits(difference), base.bytes));
    }

    private static double[] bits(double[] nats) {
        return Arrays.stream(nats).map(n -> n / Math.log(2)).toArray();
    }
}
