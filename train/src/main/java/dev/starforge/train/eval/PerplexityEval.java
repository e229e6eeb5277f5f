package dev.starforge.train.eval;

import dev.starforge.model.Model;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.corpus.Corpus;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.node.ObjectNode;

/**
 * Negative log-likelihood of every document: nats of its target tokens, and the number of bytes and tokens these are.
 */
record PerplexityEval(double[] nats, double[] bytes, double[] tokens) {
    /**
     * Evaluates a sample of windows.
     *
     * @param name of the model, for progress messages
     * @param documents the documents of the windows, sorted
     */
    static PerplexityEval of(
            String name, Model model, Evaluation.Setup setup, Corpus corpus, Corpus.Sample sample, int[] documents) {
        int count = documents.length;
        PerplexityEval all = new PerplexityEval(new double[count], new double[count], new double[count]);
        EvalProgress countdown =
                new EvalProgress(name + ", likelihood", "tokens", sample.tokens(), setup.nanoTime(), setup.progress());
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
                TrainingExample example = corpus.read(List.of(window), 0).getFirst();
                float[] losses = trainer.tokenLosses(List.of(example)).getFirst();
                for (int i = 1; i < losses.length; i++) {
                    if (example.labels()[i] != TrainingExample.IGNORED) {
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
        BootstrapInterval mean = BootstrapInterval.ratio(nats, tokens);
        MetricEstimates.put(
                column,
                "perplexity",
                new BootstrapInterval(Math.exp(mean.value()), Math.exp(mean.low()), Math.exp(mean.high())));
        MetricEstimates.put(column, "bits_per_byte", BootstrapInterval.ratio(bits(nats), bytes));
    }

    /** Writes the difference to the base model, document by document. */
    void compare(ObjectNode node, PerplexityEval base) {
        double[] difference = new double[nats.length];
        Arrays.setAll(difference, d -> nats[d] - base.nats[d]);
        MetricEstimates.put(node, "perplexity", BootstrapInterval.perplexities(nats, base.nats, base.tokens));
        MetricEstimates.put(node, "bits_per_byte", BootstrapInterval.ratio(bits(difference), base.bytes));
    }

    private static double[] bits(double[] nats) {
        return Arrays.stream(nats).map(n -> n / Math.log(2)).toArray();
    }
}
