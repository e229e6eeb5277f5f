package dev.starforge.cli.model;

import dev.starforge.model.load.ModelFiles;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.text.ChatTemplates;
import dev.starforge.train.text.Tokenizers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Modelfile for {@code ollama create NAME -f Modelfile}: the GGUF file, the prompt template and the stop tokens. A chat
 * template is in the GGUF file, where Ollama finds it; a model without one continues, and fills in by its own tokens where a
 * request has a suffix.
 */
public final class Modelfile {
    private Modelfile() {}

    /** Writes one beside a GGUF file; one that is there is not replaced. */
    public static Path write(Path gguf) throws IOException {
        return Files.writeString(beside(gguf), text(gguf), StandardOpenOption.CREATE_NEW);
    }

    public static Path beside(Path gguf) {
        return gguf.toAbsolutePath().resolveSibling("Modelfile");
    }

    private static String text(Path gguf) {
        Tokenizer tokenizer = Tokenizers.require(gguf, "a Modelfile");
        StringBuilder text = new StringBuilder("FROM ./" + gguf.getFileName() + "\n");
        if (ChatTemplates.source(gguf).isEmpty()) {
            text.append("TEMPLATE \"\"\"" + template(tokenizer) + "\"\"\"\n");
        }
        try (ModelFiles files = ModelFiles.open(gguf)) {
            Stream<String> ends = files.eosTokenIds().stream().sorted().map(tokenizer::token);
            Stream<String> after = FimMarkers.of(tokenizer).stream().flatMap(FimMarkers::stopTokens);
            text.append(Stream.concat(ends, after)
                    .distinct()
                    .map(token -> "PARAMETER stop \"" + token + "\"\n")
                    .collect(Collectors.joining()));
        }
        return text.toString();
    }

    private static String template(Tokenizer tokenizer) {
        return FimMarkers.of(tokenizer)
                .map(markers -> "{{ if .Suffix }}" + fill(markers) + "{{ else }}{{ .Prompt }}{{ end }}")
                .orElse("{{ .Prompt }}");
    }

    /** Llama tokenizers add a space before words; the markers are spelled with spaces. */
    private static String fill(FimMarkers markers) {
        return markers.spaced()
                ? "<PRE> {{ .Prompt }} <SUF>{{ .Suffix }} <MID>"
                : markers.prefix() + "{{ .Prompt }}" + markers.suffix() + "{{ .Suffix }}" + markers.middle();
    }
}
