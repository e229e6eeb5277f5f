package dev.starforge.text.secrets;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Classifies names. The last words decide, as in English: {@code db_password} is a password, {@code password_field} is
 * a field, {@code tokens} are counted, and {@code tokenizer} is unrelated.
 */
final class SecretNames {
    /** Kinds of names, from NONE to PASSWORD. The evidence required of the value decreases in this order. */
    enum NameKind {
        NONE,
        /** A key of unknown kind, usually of a map, so only random values count as secrets. */
        KEY,
        TOKEN,
        SECRET,
        PASSWORD
    }

    private static final Pattern WORD = Pattern.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[0-9]+");

    private static final Set<String> PASSWORDS = SecretValues.words("""
        psk password passwd passphrase passcode passwort pwd pw pswd psw userpass requirepass masterauth rootpw\
        """);
    private static final Set<String> SECRETS = SecretValues.words("""
        secret secrets credential credentials creds  apikey authkey accesskey secretkey\
        """);
    private static final Set<String> TOKENS = SecretValues.words("""
        token bearer jwt authtoken accesstoken pat auth sig\
        """);
    private static final Set<String> KEYS = SecretValues.words("""
        key salt sas apitoken\
        """);

    /** Words before {@code key} that make it a secret. */
    private static final Set<String> KINDS_OF_KEY = SecretValues.words("""
        access account admin aes api app application auth authentication bot cipher client consumer cookie crypt
        decryption deploy developer encrypt encryption firebase google hmac integration jwt licence license maps master openai
        private rest secret security sendgrid server service session shared signature signing storage stripe
        subscription twilio validation webhook\
        """);

    /** Words before {@code pass} that make it a password. */
    private static final Set<String> KINDS_OF_PASS = SecretValues.words("""
        account admin amqp ap api auth backup basic become bind broker cert database db default docker elastic email es
        ftp git grafana http https imap jenkins jks kafka key keystore ldap login mail mariadb mongo mq mqtt my
        mysql neo4j nexus oracle os p12 pem pfx pg postgres postgresql proxy rabbit rabbitmq rdp redis registry repl
        replication root router samba sasl service sftp signing site smb smtp sonar sql ssh store sudo superuser svc
        svn telnet truststore user vnc vpn web wifi wp wpa zip\
        """);

    /** Words after a secret's name that do not change its kind. */
    private static final Set<String> NEUTRAL = SecretValues.words("""
        again b64 base base64 bytes cleartext confirm confirmation const current default dev development env
        equals for hex in is literal live main new of old plain primary prod production raw repeat secondary
        stage staging str string test text utf v val value\
        """);

    /** Words after a secret's name that make it a property of a secret. */
    private static final Set<String> ABOUT = SecretValues.words("""
        alg algorithm alias arn at audience board bundle by case changed check class code count counts date
        digest dir down encoder endpoint equal error errors event expiration expires expiry factory field fields
        file filename folder format frame generator hash hashed hashes header hint id ids idx index input issuer
        ize ized izer izers kind label len length list manager map max message method min mode name names
        namespace offset owner pair parser path pattern placeholder point points policy pos position prefix press
        prompt provider reader ref reference regex required scope scopes service set size space state status
        store stream strength suffix test time timeout ttl type types up uri url valid validator version word
        words writer\
        """);

    /** Words before {@code token} or {@code key} that make it no secret. */
    private static final Set<String> OTHER = SecretValues.words("""
        audio begin bos cache cancel cancellation cls column config continuation csrf current dict draft end eom
        eos eot fim first foreign group hash i18n idempotency image index json last lookup map mask max min new
        next num object pad page partition peek prev previous primary prompt pub public routing row s3 sep
        setting sort special start stop sync total translation trie unk video websocket xsrf\
        """);

    private SecretNames() {}

    static NameKind of(String name) {
        List<String> words = new ArrayList<>();
        Matcher matcher = WORD.matcher(name);
        while (matcher.find()) {
            words.add(matcher.group().toLowerCase(Locale.ROOT));
        }
        for (int i = words.size() - 1; i >= 0; i--) {
            NameKind kind = kind(words, i);
            if (kind != NameKind.NONE) {
                return after(kind, words.subList(i + 1, words.size()));
            }
        }
        return NameKind.NONE;
    }

    private static NameKind kind(List<String> words, int at) {
        String word = words.get(at);
        String before = at > 0 ? words.get(at - 1) : "";
        if (PASSWORDS.contains(word)
                || word.endsWith("password")
                || word.endsWith("pwd")
                || word.endsWith("passwd")
                || word.endsWith("passphrase")) {
            return NameKind.PASSWORD;
        }
        if (word.equals("pass")) {
            return words.size() == 1 || KINDS_OF_PASS.contains(before) ? NameKind.PASSWORD : NameKind.NONE;
        }
        if (word.endsWith("pass") && KINDS_OF_PASS.contains(word.substring(0, word.length() - 4))) {
            return NameKind.PASSWORD;
        }
        if (SECRETS.contains(word) || word.endsWith("apikey") || word.endsWith("secret")) {
            return NameKind.SECRET;
        }
        if ((word.equals("key") || word.equals("salt")) && KINDS_OF_KEY.contains(before)) {
            return before.equals("app") && words.size() > 2 ? NameKind.KEY : NameKind.SECRET;
        }
        if (word.equals("login") && before.equals("sonar")) {
            return NameKind.TOKEN;
        }
        if (TOKENS.contains(word) || word.endsWith("token") && word.length() > 6) {
            return OTHER.contains(before) ? NameKind.NONE : NameKind.TOKEN;
        }
        return KEYS.contains(word) && !OTHER.contains(before) ? NameKind.KEY : NameKind.NONE;
    }

    private static NameKind after(NameKind kind, List<String> rest) {
        if (kind == NameKind.SECRET && rest.equals(List.of("id"))) {
            return NameKind.TOKEN; // private_key_id, access_key_id: of an account, given to few
        }
        NameKind left = kind;
        for (String word : rest) {
            if (ABOUT.contains(word)) {
                return NameKind.NONE;
            }
            if (!NEUTRAL.contains(word) && !Character.isDigit(word.charAt(0)) && word.length() > 1) {
                left = NameKind.KEY;
            }
        }
        return left;
    }
}
