package dev.starforge.cli.serve;

import dev.starforge.text.fim.FimMarkers;
import java.util.Optional;

/** Settings of editors for a served model: only those that work with it. */
public final class EditorSettings {
    private static final String WHY = "this model has no fill-in-the-middle tokens, so /infill and suffix answer 400;"
            + " llama.vim and llama.vscode need them";

    private EditorSettings() {}

    /** One line for the console. */
    static String hint(boolean infill, String url) {
        return infill
                ? "llama.vim: endpoint_fim " + url + "/infill; llama.vscode: endpoint " + url
                : "editors: " + WHY + "; clients of /v1/completions complete from the text before the cursor";
    }

    /**
     * Blocks of configuration files.
     *
     * @param fim the fill-in-the-middle tokens of the model, if it has them
     */
    public static String blocks(String url, String model, Optional<FimMarkers> fim) {
        String template = fim.map(
                        tokens -> tokens.prefix() + "{{{prefix}}}" + tokens.suffix() + "{{{suffix}}}" + tokens.middle())
                .orElse("{{{prefix}}}");
        String llama = fim.isPresent() ? """
                llama.vim (vimrc):
                    let g:llama_config = { 'endpoint_fim': '%1$s/infill' }

                llama.vscode (settings.json):
                    "llama-vscode.endpoint": "%1$s"
                """ : WHY + ".\n";
        return (llama + """

                Continue (config.yaml):
                    models:
                      - name: %2$s
                        provider: openai
                        model: %2$s
                        apiBase: %1$s/v1
                        apiKey: none
                        useLegacyCompletionsEndpoint: true
                        roles: [autocomplete]
                        promptTemplates:
                          autocomplete: "%3$s"
                """).formatted(url, model, template);
    }
}
