package dev.starforge.text.secrets;

import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds mail addresses. Excludes other text with an at sign and a dot: Kotlin labels, package versions, remote paths,
 * decorators, file names, and user names on a host.
 */
final class EmailAddresses {
    private static final Pattern MAIL = Pattern.compile(
            "(?<![A-Za-z0-9._%+@/:-])(?!git@)([A-Za-z0-9][A-Za-z0-9._%+-]{0,63})@[A-Za-z0-9](?:[A-Za-z0-9-]{0,63}\\.){1,20}([A-Za-z]{2,24})(?![A-Za-z0-9-]|\\.[A-Za-z0-9]|:[^\\s\"',]|@|\\()");

    /** Domains reserved for documentation (RFC 2606). */
    private static final Pattern RESERVED_DOMAIN = Pattern.compile("(?i).*[@.]example\\.(?:com|net|org)");

    private static final Pattern VERSION = Pattern.compile("@[0-9]+\\.[0-9]+\\.");
    private static final Set<String> NO_USERS = SecretValues.words("this super return break continue git it self");
    private static final Set<String> EXTENSIONS = SecretValues.words("""
        png jpg jpeg gif svg webp ico css scss less js mjs ts tsx jsx json html htm md rst txt java kt py pyc rs go rb php
        cpp hpp xml yaml yml toml lock service socket timer target mount aar jar zip gz tgz tar class call apply bind
        map filter length size name value id key type finish gguf bin onnx\
        """);

    private EmailAddresses() {}

    static void find(String line, SecretFinding.FindingSet findings) {
        Matcher mail = MAIL.matcher(line);
        while (mail.find()) {
            boolean version =
                    VERSION.matcher(line).region(mail.end(1), mail.end()).lookingAt();
            if (!version
                    && !RESERVED_DOMAIN.matcher(mail.group()).matches()
                    && !NO_USERS.contains(mail.group(1))
                    && !EXTENSIONS.contains(mail.group(2).toLowerCase(Locale.ROOT))) {
                findings.add(mail.start(), mail.end(), SecretRule.EMAIL);
            }
        }
    }
}
