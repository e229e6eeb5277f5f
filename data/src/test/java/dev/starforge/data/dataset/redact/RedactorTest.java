package dev.starforge.data.dataset.redact;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import dev.starforge.data.dataset.SecretsCorpus;
import dev.starforge.text.secrets.PrivateKeys;
import dev.starforge.text.secrets.SecretFinding;
import dev.starforge.text.secrets.SecretScanner;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What must go, and what only looks like it. */
final class RedactorTest {
    private static String redact(String line) {
        return new String(new Redactor().redact(line.getBytes(StandardCharsets.UTF_8)), StandardCharsets.UTF_8);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '~',
            value = {
                "redis://:s3cretPass@cache:6379 | redis://:<PASSWORD>@cache:6379",
                "postgres://app:Tr0ub4dor3!@db/x | postgres://app:<PASSWORD>@db/x",
                "url = 'postgres://app:hunter2@${HOST}/x' | url = 'postgres://app:<PASSWORD>@${HOST}/x'",
                "amqp://app:p@ss@queue | amqp://app:<PASSWORD>@queue",
                "ftp://app:pässwört!@host/ | ftp://app:<PASSWORD>@host/",
                "ftp://app:s3cret@ | ftp://app:<PASSWORD>@",
                "password: Sup3rS3cret! | password: <PASSWORD>",
                "~  - db_password: Sup3rS3cret  # prod~ | ~  - db_password: <PASSWORD>  # prod~",
                "password=Sup3rS3cret! # prod | password=<PASSWORD> # prod",
                "password: CorrectHorse! | password: <PASSWORD>",
                "~  db_passphrase: correct!horse~ | ~  db_passphrase: <PASSWORD>~",
                "PASSWORD = \"CorrectHorse\" | PASSWORD = \"<PASSWORD>\"",
                "\"db_password\": \"CorrectHorseBattery\", | \"db_password\": \"<PASSWORD>\",",
                "props.put(\"password\", \"CorrectHorse\"); | props.put(\"password\", \"<PASSWORD>\");",
                "char* pwd = \"Open$esame\"; | char* pwd = \"<PASSWORD>\";",
                "password:\t\"Sup3rS3cret\" | password:\t\"<PASSWORD>\"",
                "my.password.value=Sup3rS3cret! | my.password.value=<PASSWORD>",
                "ya29.AbcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPqr | <KEY>",
                "ya29.abcdefghijklmnopqrstuvwxyz | <KEY>",
                "SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq | <KEY>",
                "eyJabcdefghijklmnopq.eyJabcdefgh.abcdefgh | <KEY>",
                "secret: 'a1b2c3' | secret: '<KEY>'",
                "signing-key=`a1b2c3` | signing-key=`<KEY>`",
                "encryption_key = \"a1b2c3\" | encryption_key = \"<KEY>\"",
                "authKey: \"a1b2c3\" | authKey: \"<KEY>\"",
                "api-key=a1b2c3d4 | api-key=<KEY>",
                "credentials = 'a1b2c3' | credentials = '<KEY>'",
                "DB_PASSWORD=Sup3rS3cret! | DB_PASSWORD=<PASSWORD>",
                "export API_KEY=x9Kd03nfAq | export API_KEY=<KEY>",
                "spring.datasource.password=pa$$w0rd99 | spring.datasource.password=<PASSWORD>",
                "password = \"Sup3r(S3cret!\" | password = \"<PASSWORD>\"",
                "password: '$up3rS3cret!' | password: '<PASSWORD>'",
                "\"password\": \"%9kfLq2!x\" | \"password\": \"<PASSWORD>\"",
                "password => '{9kf!Lq2x' | password => '<PASSWORD>'",
                "token = 'AKIAQ7XZ5TRWNLP4KD2B' | token = '<KEY>'",
                "write to ada@secret-domain.dev | write to <EMAIL>",
            })
    void secretsAreRedacted(String line, String expected) {
        assertThat(redact(line)).isEqualTo(expected);
        assertThat(redact("first\n" + line + "\r\nlast\n")).isEqualTo("first\n" + expected + "\r\nlast\n");
        for (int indent = 1; indent < 40; indent++) {
            assertThat(redact(" ".repeat(indent) + line)).isEqualTo(" ".repeat(indent) + expected);
        }
    }

    /** Their letters alone, which look like words, do not give them away. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "AKIA",
                "ASIA",
                "AGPA",
                "AIDA",
                "AROA",
                "ANPA",
                "ghp_",
                "gho_",
                "ghu_",
                "ghs_",
                "ghr_",
                "github_pat_",
                "glpat-",
                "xoxb-",
                "AIza",
                "sk_live_",
                "rk_test_",
                "sk-",
                "sk-ant-",
                "hf_",
                "npm_",
                "pypi-",
                "SK",
                "dop_v1_"
            })
    void keysOfKnownProvidersGo(String beginning) {
        int length = switch (beginning) {
            case "SK" -> 32;
            case "AIza" -> 35;
            case "npm_" -> 36;
            case "pypi-", "dop_v1_" -> 64;
            default -> beginning.startsWith("A") ? 16 : 40;
        };
        String letters = beginning.startsWith("A") && length == 16 ? "ABCDEFGH" : "abcdefab";
        String key = beginning + letters.repeat(8).substring(0, length);
        for (String around : List.of("%s", "key is %s,", "x=%s", "a/%s", "(\"%s\")")) {
            assertThat(redact(around.formatted(key))).isEqualTo(around.formatted("<KEY>"));
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "commit: 9e107d9d372bb6826bd81d3542a419d6aa55e0a1",
                "sha256 = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
                "id: 123e4567-e89b-12d3-a456-426614174000",
                "password: str",
                "password: Optional[str]",
                "password: string | undefined;",
                "password: String!",
                "password: PasswordInput!",
                "password: NonEmptyString!",
                "password: currentPassword!",
                "  password: user.password!",
                "password: this.form.password!,",
                "password: [String!]!",
                "password: @NotBlank",
                "password: !vault",
                "password = \"string\"",
                "\"password\": \"Password\"",
                "password: \"EnterPassword\"",
                "passwordField = \"CurrentField\"",
                "passwordEncoder: \"BcryptEncoder\"",
                "password = os.environ[\"DbPassWord\"]",
                "password = System.getenv(\"CorrectHorse\")",
                "String password = readSecret(CorrectHorse);",
                "token = \"NextToken\"",
                "secret: Uint8Array",
                "password = getPassword()",
                "password = config.get(\"password1\")",
                "token = nextToken2;",
                "token = self.oauth.token2",
                "this.password = password;",
                "password: ${DB_PASSWORD}",
                "password: \"${DB_PASSWORD:-none1}\"",
                "password: '{{ vault_password1 }}'",
                "password: {{vault_password1}}",
                "password = \"{{password1}}\"",
                "password = \"$DB_PASSWORD1\"",
                "password = \"%(db_password1)s\"",
                "password=%DB_PASSWORD1%",
                "password = \"<your-password-1>\"",
                "password: *shared_password_12",
                "password_file=/run/secrets/db-password-12",
                "secretName: app-tls-v2",
                "tokenizer: starcoder2-15b",
                "tokenizer = starcoder2-15b",
                "max_tokens: 12345678",
                "token_url = https://login.example/oauth2/v20",
                "http://$USER:$PASS@host",
                "http://user:${PASS}@host:80/x",
                "http://{user}:{password}@{host}/",
                "String s = \"http://%s:%s@%s/\";",
                "    @Override public String toString() {",
                "git clone git@github.com:owner/name.git",
            })
    void ordinaryTextIsUnchanged(String line) {
        assertThat(redact(line)).isEqualTo(line);
    }

    @ParameterizedTest
    @CsvSource({
        "users/ada@secret-domain.dev/notes.md, users/<EMAIL>/notes.md",
        "keys/AKIAQ7XZ5TRWNLP4KD2B.txt, keys/<KEY>.txt",
        "src/main/java/dev/starforge/data/dataset/Base64V2Utf8Reader12Test.java, "
                + "src/main/java/dev/starforge/data/dataset/Base64V2Utf8Reader12Test.java",
        "units/getty@tty1.service, units/getty@tty1.service",
        "icons/logo@2x.png, icons/logo@2x.png",
        "a/password=kf83hd72/x.txt, a/password=<PASSWORD>/x.txt",
    })
    void pathsAreRedactedToo(String path, String expected) {
        assertThat(Redactor.path(path)).isEqualTo(expected);
    }

    /** The first look may send too many lines on, never too few. */
    @Test
    void thePrefilterMissesNoSecret() {
        String[] names =
                ("password passwd pwd Passphrase secret api_key apikey access-key authKey private_key signing_key"
                                + " encryption-key key token auth_token tokenizer credentials _pass user mail http://ann:x"
                                + " http://ann:é!")
                        .split(" ");
        String[] signs = {"=", ":", " = ", ": ", "==", "=>", " := ", ", ", ",", "':", "\": ", "@", "\t=\t", " "};
        String[] marks = {"\"", "'", "`", "", "", "<", "(", "${", "//"};
        String[] values =
                "Tr0ub4dor&3 CorrectHorse hunter2x hunter2 a1b2c3 a1b2c hunter aB3 x example.org é123456 a!b@c.d #12345678"
                        .split(" ");
        Random random = new Random(9);
        int replaced = 0;
        for (int round = 0; round < 60_000; round++) {
            StringBuilder line = new StringBuilder();
            for (int i = random.nextInt(3); i >= 0; i--) {
                for (String[] part : List.of(names, signs, marks, values, marks)) {
                    line.append(random.nextInt(8) == 0 ? " " : part[random.nextInt(part.length)]);
                }
            }
            List<SecretFinding> all = SecretScanner.scan(line.toString());
            assertThat(looked(line.toString())).as(line.toString()).isEqualTo(all);
            replaced += all.isEmpty() ? 0 : 1;
        }
        for (SecretsCorpus.Planted planted : SecretsCorpus.make(1)) {
            assertThat(looked(planted.line())).isEqualTo(SecretScanner.scan(planted.line()));
        }
        assertThat(replaced).isGreaterThan(1_000);
    }

    private static List<SecretFinding> looked(String line) {
        byte[] bytes = line.getBytes(StandardCharsets.ISO_8859_1);
        return SecretScanner.scan(bytes, 0, bytes.length);
    }

    /** A minified file, or a hostile one. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "@",
                "=",
                "=\n",
                "a",
                "0123456789abcdef",
                "token",
                "password",
                "a://",
                "a@",
                "aB3/",
                "eyJabcdefgh.",
                "sk-abc",
                "-",
                "password, '",
                "a'",
                "b.",
                "!",
                "x=",
                "\"",
                "a.b",
                "$a_",
                "Aa",
                " ",
                "cc: ",
                "-----BEGIN "
            })
    void longLinesTakeNoLonger(String piece) {
        String line = piece.repeat(200_000 / piece.length());
        assertTimeoutPreemptively(Duration.ofSeconds(20), () -> {
            for (String around : List.of(
                    "%s",
                    "%s x@y.example token='abcdef1'",
                    "token='abcdef1' %s",
                    "a@%s1",
                    "password=%s",
                    "secret: %s1!",
                    "pass='%s1!'",
                    "a://b:%s@c")) {
                redact(around.formatted(line));
            }
            Redactor.withoutNames("cc:" + line + "\nauthor: " + line, "Ann");
        });
    }

    @Test
    void namesAreWords() {
        assertThat(Redactor.withoutNames("Maximum by Max, Max's and Al\n\nSigned-off-by: Ann <a@b.de>\n", "Max", "Al"))
                .isEqualTo("Maximum by <NAME>, <NAME>'s and Al\n\nSigned-off-by: <NAME> <a@b.de>\n");
    }

    /** Files of other systems end lines with a carriage return only: to git, and so here, they are one line. */
    @Test
    void anyBlankIsABlank() {
        for (String blank : List.of("\t", "\r", "\f", "\u000B", " \r ")) {
            assertThat(redact("password =" + blank + "\"Sup3rS3cret\""))
                    .isEqualTo("password =" + blank + "\"<PASSWORD>\"");
            assertThat(redact("password" + blank + ": \"Sup3rS3cret\""))
                    .isEqualTo("password" + blank + ": \"<PASSWORD>\"");
        }
    }

    @Test
    void onlyTheBodyOfAPrivateKeyGoes() {
        String body = "MIIEowIBAAKCAQEA7bq9Zt0fJm2Qw8xYc1LrVhKsTnPdGuEo5iA3RjXkBvN4y6Wz";
        assertThat(redact("-----BEGIN RSA PRIVATE KEY-----\n" + body + "\nshort==\n-----END RSA PRIVATE KEY-----\nx\n"))
                .isEqualTo("-----BEGIN RSA PRIVATE KEY-----\n<KEY>\n<KEY>\n-----END RSA PRIVATE KEY-----\nx\n");
        assertThat(redact("k = \"-----BEGIN PRIVATE KEY-----\\n\"\n  + \"" + body
                        + "\\n\"\n  + \"-----END PRIVATE KEY-----\";"))
                .isEqualTo("k = \"-----BEGIN PRIVATE KEY-----\\n\"\n  + \"<KEY>\\n\"\n"
                        + "  + \"-----END PRIVATE KEY-----\";");
        assertThat(redact("\"key\": \"-----BEGIN PRIVATE KEY-----\\n" + body
                        + "\\nAbCd\\n-----END PRIVATE KEY-----\\n\","))
                .isEqualTo("\"key\": \"-----BEGIN PRIVATE KEY-----\\n<KEY>\\n-----END PRIVATE KEY-----\\n\",");
        assertThat(redact("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n" + body
                        + "\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----\n"))
                .isEqualTo("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n<KEY>\n<KEY>\n"
                        + "-----END PGP PRIVATE KEY BLOCK-----\n");
    }

    @Test
    void codeThatMentionsPrivateKeysStays() {
        String code = "if (text.startsWith(\"-----BEGIN RSA PRIVATE KEY-----\")) {\n    read(text, 0);\n}\n"
                + "assert text.endsWith(\"-----END RSA PRIVATE KEY-----\");\n";
        assertThat(redact(code)).isEqualTo(code);
    }

    @Test
    void aPrivateKeyIsLookedForWhereverItBegins() {
        for (int before = 0; before < 12; before++) {
            for (int dashes = 3; dashes < 12; dashes++) {
                String text = "x".repeat(before) + "-".repeat(dashes) + "BEGIN x";
                assertThat(PrivateKeys.mayHold(text.getBytes(StandardCharsets.US_ASCII)))
                        .as(text)
                        .isEqualTo(dashes >= 5);
                assertThat(PrivateKeys.mayHold(("-----\n" + text).getBytes(StandardCharsets.US_ASCII)))
                        .as(text)
                        .isEqualTo(dashes >= 5);
            }
        }
    }

    @Test
    void aMaskShowsAQuarterAtMost() {
        assertThat(SecretFinding.masked("hunter2")).isEqualTo("h*****");
        assertThat(SecretFinding.masked("abc")).isEqualTo("*****");
        assertThat(SecretFinding.masked("AKIAQ7XZ5TRWNLP4KD2B")).isEqualTo("AKI*****");
        assertThat(SecretFinding.masked("pässwört-und-mehr")).isEqualTo("p*****");
    }
}
