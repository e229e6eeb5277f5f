package dev.starforge.cli.chat;

import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.process.CtrlC;
import dev.starforge.data.DatasetException;
import dev.starforge.model.ModelException;
import dev.starforge.text.TokenizerException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** The interactive prompt of {@code run}. Lines that start with a slash are session commands. */
public final class ReplSession {
    private static final String BLOCK = "\"\"\"";
    private static final String HELP = """
        Type text to continue it%s. Text with %s is filled in there: return %2$s + b;
        Enclose several lines in %s.
          /fim TEXT       fill in TEXT at %2$s
          /set NAME VALUE set max_tokens, temperature, top_k, top_p, min_p, repetition_penalty or seed
          /show           show the settings
          /clear          clear the conversation
          /help           show this help
          /bye            exit (or Ctrl-D); Ctrl-C stops the generation\
        """;

    private final TextGenerator answers;
    private final BufferedReader in;
    private final PrintWriter out;
    private final CtrlC ctrlC;
    private SessionSettings settings;

    public ReplSession(
            TextGenerator answers, SessionSettings settings, BufferedReader in, PrintWriter out, CtrlC ctrlC) {
        this.answers = answers;
        this.settings = settings;
        this.in = in;
        this.out = out;
        this.ctrlC = ctrlC;
    }

    public void run() throws IOException {
        out.println(answers.chats() ? "Chat mode; /help lists commands." : "Completion mode; /help lists commands.");
        for (Optional<String> text = read(); text.isPresent(); text = read()) {
            String line = text.get();
            if (line.strip().equals("/bye")) {
                return;
            }
            if (line.startsWith("/")) {
                command(line.strip());
            } else if (!line.isBlank()) {
                answer(line);
            }
        }
        out.println();
        out.flush();
    }

    /** Reads a line, or a block between two marks; empty at the end of the input. */
    private Optional<String> read() throws IOException {
        out.print(">>> ");
        out.flush();
        String first = in.readLine();
        if (first == null || !first.startsWith(BLOCK)) {
            return Optional.ofNullable(first);
        }
        List<String> lines = new ArrayList<>();
        String line = first.substring(BLOCK.length());
        while (line != null && !line.endsWith(BLOCK)) {
            lines.add(line);
            out.print("... ");
            out.flush();
            line = in.readLine();
        }
        lines.add(line == null ? "" : line.substring(0, line.length() - BLOCK.length()));
        return Optional.of(String.join("\n", lines).replaceFirst("^\n", ""));
    }

    private void command(String line) {
        String[] words = line.split("\\s+", 3);
        switch (words[0]) {
            case "/help" ->
                out.println(HELP.formatted(answers.chats() ? " or to chat" : "", TextGenerator.CURSOR, BLOCK));
            case "/show" -> out.println(settings.show());
            case "/clear" -> answers.clear();
            case "/set" -> set(words);
            case "/fim" -> fill(line.substring("/fim".length()).strip());
            default -> out.println("unknown command " + words[0] + "; /help lists commands");
        }
        out.flush();
    }

    private void set(String[] words) {
        try {
            settings = settings.with(words.length > 1 ? words[1] : "", words.length > 2 ? words[2] : "");
            out.println(settings.show());
        } catch (IllegalArgumentException wrong) {
            out.println("/set: " + wrong.getMessage());
        }
    }

    private void fill(String text) {
        if (text.contains(TextGenerator.CURSOR)) {
            answer(text);
        } else {
            out.println("/fim: expected text with " + TextGenerator.CURSOR + " at the position to fill in");
        }
    }

    /** Prints the error if the model cannot process the input; the session continues. */
    private void answer(String text) {
        ctrlC.forget();
        try {
            answers.answer(text, settings.sampling(), settings.maxTokens(), out, ctrlC::came);
        } catch (DatasetException | ModelException | TokenizerException unable) {
            out.println(Escaped.of(String.valueOf(unable.getMessage())));
        }
        out.flush();
    }
}
