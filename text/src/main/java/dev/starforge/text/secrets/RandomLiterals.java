package dev.starforge.text.secrets;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds random quoted literals regardless of their name, by the length and alphabet of keys. Hashes, UUIDs and encoded
 * data are random as well but not secrets; the text of their lines usually identifies them.
 */
final class RandomLiterals {
    private static final Pattern LITERAL = Pattern.compile("([\"'`])([0-9A-Za-z+/_=.-]{20,130})\\1");
    private static final Pattern DATA =
            Pattern.compile("(?i)sha-?(?:1|224|256|384|512)|integrity|base64|b64|data:|hash|digest|checksum|fingerprint"
                    + "|etag|public|cert|ssh-|pubkey|signature|nonce|uuid|guid|ulid|bytes|image|font|encode|decode|md5|crc|h1:|boundary|font|alphabet"
                    + "|cid|commit|revision|blob|fixture|svg|path|snapshot");

    /** A Discord bot token: user id, time and signature, without a prefix. */
    private static final Pattern BOT = Pattern.compile(
            "(?<![0-9A-Za-z_.-])[MNO][0-9A-Za-z]{23,25}\\.[0-9A-Za-z_-]{6}\\.[0-9A-Za-z_-]{27,40}(?![0-9A-Za-z_.-])");

    private RandomLiterals() {}

    static void find(String line, SecretFinding.FindingSet findings) {
        Matcher bot = BOT.matcher(line);
        while (bot.find()) {
            if (Gibberish.of(bot.group()).isRandom()) {
                findings.add(bot.start(), bot.end(), SecretRule.PROVIDER_KEY);
            }
        }
        Matcher literal = LITERAL.matcher(line);
        if (!literal.find() || DATA.matcher(line).find()) {
            return;
        }
        do {
            String value = literal.group(2);
            Gibberish made = Gibberish.of(value);
            if (made.isMixed()
                    && made.runLength() < 2.3
                    && made.isRandom()
                    && made.isStrange()
                    && !SecretValues.isPlaceholder(value)
                    && !SecretValues.isCode(value)
                    && !SecretValues.isEncodedText(value)) {
                findings.add(literal.start(2), literal.end(2), SecretRule.RANDOM_LITERAL);
            }
        } while (literal.find());
    }
}
