package dev.starforge.data.dataset;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Secrets with a label, in every style and of every provider, made from a seed: no key in it is anybody's, and none stands
 * in the repository. Each set after the first was written down before its lines were tried, by who had not read the rules;
 * what it scored then stands in {@code docs/dataset.md}.
 */
public final class SecretsCorpus {
    /** A line with a secret; the rest of the line must stay unchanged. */
    public record Planted(String set, String group, String before, String secret, String after) {
        public String line() {
            return before + secret + after;
        }
    }

    /** In the order in which they were written. */
    public static final List<String> SETS = List.of("tune", "held", "fresh", "last", "declared", "blind");

    private static final char SLOT = '§';
    private static final Pattern SHELL_WORD = Pattern.compile("[A-Za-z0-9._-]+");
    private static final List<String> TUNE = List.of(
            "Tr0ub4dor&3",
            "correct-horse-battery",
            "S3cretPass99",
            "hunter2",
            "Sup3rS3cret!",
            "P@ssw0rd!2024",
            "letmein!42",
            "qwerty!789",
            "Winter2023!",
            "iloveyou99",
            "dragon#88",
            "Zx9$kLm2",
            "m0nkeyBusiness",
            "blue-Kettle-42",
            "Passw0rd.Prod1",
            "Spr1ng&Autumn",
            "maple-syrup-canoe",
            "G0ldfish77",
            "rosebud9",
            "Un1c0rn!",
            "th3Qu1ckBr0wn",
            "Sunset_Blvd_1950",
            "yellow.Submarine.66",
            "B1gS3cr3t#",
            "open$Sesame5");
    private static final List<String> HELD = List.of(
            "Wh1teRabbit!",
            "purple-Monkey-dishwasher",
            "Gr4ndma$House",
            "monsoon2019",
            "K33pOut!!",
            "thunder.Cats.88",
            "l0v3lyDay",
            "Ottawa#613",
            "sn0wf4ll",
            "JuneBug_77");
    private static final List<String> FRESH = List.of(
            "1q2w3e4r",
            "Welcome1!",
            "Qwerty123!",
            "Admin@2021",
            "r00tme",
            "MyS3cur3P@ss",
            "x8#kPq!2zL",
            "bT7$wq9",
            "Monkey_123",
            "FluffyBunny88",
            "ilikecheese1",
            "N0tS0Obvious",
            "7h3-k3y",
            "kX2mQ9",
            "Liverpool4ever",
            "toor4you",
            "c0ff33-and-cake",
            "Ab12Cd34",
            "Jenkins#2020",
            "Pa$$w0rd99");
    private static final List<String> LAST = List.of(
            "Br0kenArrow",
            "tiger-Lily-09",
            "S0lar#Flare",
            "gandalf1954",
            "4everYoung",
            "pineApple.77",
            "Vq8!rt_Zp",
            "Hello&Goodbye2",
            "xK9-mB2",
            "Rotterdam_010",
            "w1nd0wsill",
            "Zebra!Crossing");
    private static final List<String> DECLARED = List.of(
            "hunter2secret",
            "summer2024rain",
            "blue42whale",
            "Kitchen-Table7",
            "p4nc4ke!",
            "MyDog$pot9",
            "tr1angle_Q",
            "oldoak77tree",
            "R4inyM0nday",
            "silver.Fox.21",
            "wx7!Lm#2",
            "garlic3bread");
    private static final List<String> BLIND = List.of(
            "winter7morning",
            "red9balloon",
            "Copper!Kettle5",
            "n0rthw1nd",
            "hill2valley",
            "Fr0stbite#4",
            "moon88light",
            "GreenTea_404",
            "q8%Zt!v3",
            "violin5case",
            "Harbor.View.31",
            "st4irw3ll");
    private static final Map<String, List<String>> BY_SET =
            Map.of("tune", TUNE, "held", HELD, "fresh", FRESH, "last", LAST, "declared", DECLARED, "blind", BLIND);

    /** Lines in which a key of a provider has no name to be known by. */
    private static final List<String> PLACES =
            List.of("x = \"§\"", "# see § for it", "    call('§');", "url: §", "<a>§</a>", "run --flag=§ --other");

    private final Random random;

    private SecretsCorpus(long seed) {
        random = new Random(seed);
    }

    public static List<Planted> make(long seed) {
        return new SecretsCorpus(seed).all();
    }

    private List<Planted> all() {
        List<Planted> all = new ArrayList<>();
        plantStyles("styles.txt", all);
        int place = 0;
        for (String row : rows("providers.txt")) {
            String[] cells = row.split("\t", 3);
            for (int i = 0; i < 3; i++) {
                String template = PLACES.get(place++ % PLACES.size());
                all.add(plant(cells[0], "provider " + cells[1], template, shaped(cells[2])));
            }
        }
        plantStyles("declared.txt", all);
        return all;
    }

    private void plantStyles(String file, List<Planted> all) {
        for (String row : rows(file)) {
            String[] cells = row.split("\t", 4);
            for (String value : values(cells[2], BY_SET.get(cells[0]))) {
                all.add(plant(cells[0], "style " + cells[1], cells[3], value));
            }
        }
    }

    private static Planted plant(String set, String group, String template, String value) {
        int slot = template.indexOf(SLOT);
        return new Planted(set, group, template.substring(0, slot), value, template.substring(slot + 1));
    }

    private List<String> values(String kind, List<String> passwords) {
        return switch (kind) {
            case "p" -> List.of(pick(passwords), pick(passwords), pick(passwords), pick(passwords), strong());
            case "s" -> {
                List<String> bare = passwords.stream()
                        .filter(password -> SHELL_WORD.matcher(password).matches())
                        .toList();
                yield List.of(pick(bare), pick(bare), pick(bare), pick(bare), shaped("{A14}"));
            }
            case "b" ->
                List.of(basic(pick(passwords)), basic(pick(passwords)), basic(pick(passwords)), basic(strong()));
            case "e" -> List.of(encoded(pick(passwords)), encoded(pick(passwords)), encoded(strong()));
            default ->
                List.of(
                        shaped("{A" + (20 + random.nextInt(30)) + "}"),
                        shaped("{W" + (24 + random.nextInt(20)) + "}"),
                        shaped("{H32}"),
                        shaped(random.nextBoolean() ? "{H40}" : "{H64}"),
                        shaped("{U26}"),
                        shaped("{A" + (12 + random.nextInt(6)) + "}"),
                        shaped("{L32}"),
                        shaped("{H8}-{H4}-4{H3}-a{H3}-{H12}"));
        };
    }

    private String pick(List<String> values) {
        return values.get(random.nextInt(values.size()));
    }

    /** A password from a password manager. */
    private String strong() {
        return shaped("{A5}!{A6}%{A3}");
    }

    private static String basic(String password) {
        return encoded("robot:" + password);
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Fills in the braces of a shape. */
    private String shaped(String shape) {
        return Pattern.compile("\\{([A-Z])([0-9]+)}").matcher(shape).replaceAll(found -> {
            String alphabet = alphabet(found.group(1).charAt(0));
            StringBuilder text = new StringBuilder();
            for (int i = Integer.parseInt(found.group(2)); i > 0; i--) {
                text.append(alphabet.charAt(random.nextInt(alphabet.length())));
            }
            // a key ends in a letter or digit: what follows it in a text may be a sign
            return text.toString().replaceFirst("^[^A-Za-z0-9]", "k").replaceFirst("[^A-Za-z0-9]$", "7");
        });
    }

    private static String alphabet(char kind) {
        String lower = "abcdefghijklmnopqrstuvwxyz";
        String upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        String digits = "0123456789";
        return switch (kind) {
            case 'U' -> upper + "234567";
            case 'N' -> upper + digits;
            case 'A' -> lower + upper + digits;
            case 'L' -> lower + digits;
            case 'H' -> "0123456789abcdef";
            case 'D' -> digits;
            case 'W' -> lower + upper + digits + "_-";
            case 'B' -> lower + upper + digits + "+/";
            case 'S' -> lower + upper;
            default -> throw new IllegalArgumentException("alphabet " + kind);
        };
    }

    /** Lines without secrets, which must stay unchanged. */
    public static List<String> negatives() {
        return rows("negatives.txt");
    }

    private static List<String> rows(String name) {
        try (InputStream file = SecretsCorpus.class.getResourceAsStream("secrets/" + name)) {
            return new String(file.readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .filter(line -> !line.startsWith("# ") && !line.isBlank())
                    .toList();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** Sources of this repository, in which secrets are planted. */
    public static List<Path> hosts(Path module) throws IOException {
        try (Stream<Path> files = Files.walk(module.resolve("src/main"))) {
            // one of them writes passwords itself
            return files.filter(file -> file.toString().endsWith(".java") && !file.endsWith("SampleHistory.java"))
                    .sorted()
                    .toList();
        }
    }
}
