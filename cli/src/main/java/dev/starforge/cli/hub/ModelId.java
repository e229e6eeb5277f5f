package dev.starforge.cli.hub;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Name of a model on a hub, {@code OWNER/NAME[@REVISION]}. It becomes part of paths and URLs, so its characters are restricted.
 *
 * @param repo {@code OWNER/NAME}
 * @param revision a branch, a tag or a commit
 */
public record ModelId(String repo, String revision) {
    public static final String MAIN = "main";

    private static final String WORD = "[A-Za-z0-9_][A-Za-z0-9._-]{0,95}";
    private static final Pattern FORM = Pattern.compile("(" + WORD + "/" + WORD + ")(?:@(" + WORD + "))?");

    /** Parses a name; empty if it is not a model id. */
    public static Optional<ModelId> parse(String text) {
        Matcher form = FORM.matcher(text);
        return form.matches() && !text.contains("..")
                ? Optional.of(new ModelId(form.group(1), form.group(2) == null ? MAIN : form.group(2)))
                : Optional.empty();
    }

    /** {@code OWNER/NAME}, with the revision unless it is main. */
    @Override
    public String toString() {
        return revision.equals(MAIN) ? repo : repo + "@" + revision;
    }
}
