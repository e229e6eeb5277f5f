package dev.starforge.data.dataset.report;

import dev.starforge.data.Dataset;
import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.PrintWriter;
import java.time.Instant;
import java.util.function.IntFunction;

/**
 * Prints samples and marks the text that counts in the loss, by colour on a terminal and by brackets elsewhere. The text is
 * untrusted: control characters are replaced by visible symbols, so that it cannot control the terminal.
 */
public final class SamplePreview {
    private static final String COUNTED = "\u001b[32m";
    private static final String SPECIAL = "\u001b[35m";
    private static final String OTHER = "\u001b[2m";
    private static final String RESET = "\u001b[0m";

    private SamplePreview() {}

    /** @param coloured marks by colour; otherwise text that counts is printed between ⟦ and ⟧ */
    public static void print(
            PrintWriter out, Dataset dataset, Tokenizer tokenizer, Split split, int count, boolean coloured) {
        print(out, dataset.documents(split), split.label() + " ", tokenizer, count, coloured, number -> {
            SampleOrigin origin = dataset.origin(split, number);
            return ", " + Instant.ofEpochSecond(origin.time()) + " " + harmless(origin.directory());
        });
    }

    /** Prints documents that do not belong to a dataset. */
    public static void print(
            PrintWriter out, TokenDocuments documents, Tokenizer tokenizer, int count, boolean coloured) {
        print(out, documents, "", tokenizer, count, coloured, number -> "");
    }

    private static void print(
            PrintWriter out,
            TokenDocuments documents,
            String label,
            Tokenizer tokenizer,
            int count,
            boolean coloured,
            IntFunction<String> origin) {
        int shown = Math.min(count, documents.count());
        for (int i = 0; i < shown; i++) {
            int number = (int) ((long) i * documents.count() / shown);
            TokenDocument document = documents.read(number);
            int counted = 0;
            for (boolean each : document.counted()) {
                counted += each ? 1 : 0;
            }
            out.println("--- " + label + number + " of " + documents.count() + ": " + document.id() + ", "
                    + document.ids().length + " tokens, " + counted + " count" + origin.apply(number));
            for (HtmlReport.TokenRun run : HtmlReport.runs(document, tokenizer, Integer.MAX_VALUE)) {
                String text = harmless(run.text());
                if (coloured) {
                    out.print((run.special() ? SPECIAL : run.counted() ? COUNTED : OTHER) + text + RESET);
                } else {
                    out.print(run.counted() ? "⟦" + text + "⟧" : text);
                }
            }
            out.println();
        }
        out.flush();
    }

    /** Replaces control characters other than newlines and tabs by their symbols, which begin at U+2400. */
    public static String harmless(String text) {
        StringBuilder shown = new StringBuilder(text.length());
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            boolean plain = c == '\n' || c == '\t' || !Character.isISOControl(c);
            shown.append(plain ? c : c < ' ' ? (char) (0x2400 + c) : '\uFFFD');
        }
        return shown.toString();
    }
}
