package dev.starforge.text.secrets;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Secrets passed as positional arguments, with no name beside them: {@code connect("localhost", "root", "…")}, {@code
 * jwt.sign(claims, "…")}. A table gives the argument's index.
 */
final class CallArguments {
    /** Names of functions in lower case. */
    private static final Map<String, Integer> PASSWORD_AT = Map.ofEntries(
            Map.entry("getconnection", 2),
            Map.entry("connect", 2),
            Map.entry("mysqli_connect", 2),
            Map.entry("mysql_connect", 2),
            Map.entry("mysqli", 2),
            Map.entry("pdo", 2),
            Map.entry("sequelize", 2),
            Map.entry("plainauth", 2),
            Map.entry("mysql_real_connect", 3),
            Map.entry("login", 1),
            Map.entry("authenticate", 1),
            Map.entry("setbasicauth", 1),
            Map.entry("basicauth", 1),
            Map.entry("wifi.begin", 1),
            Map.entry("wifi.softap", 1),
            Map.entry("ldap_bind", 2),
            Map.entry("sp_addlogin", 1),
            Map.entry("load", 1),
            Map.entry("auth", 0));

    private static final Map<String, Integer> KEY_AT = Map.ofEntries(
            Map.entry("jwt.encode", 1),
            Map.entry("jwt.decode", 1),
            Map.entry("jwt.sign", 1),
            Map.entry("jwt.verify", 1),
            Map.entry("signwith", 1),
            Map.entry("createhmac", 1),
            Map.entry("cookieparser", 0),
            Map.entry("hmac256", 0),
            Map.entry("hmac384", 0),
            Map.entry("hmac512", 0),
            Map.entry("oauthhandler", 1),
            Map.entry("secretkeyspec", 0),
            Map.entry("require('stripe')", 0),
            Map.entry("login", 0));

    private static final Pattern CALL = Pattern.compile(
            "(?i)(?<![\\w$])(jwt\\.\\w{4,6}|wifi\\.\\w{5,6}|getConnection|connect|mysqli?_connect|mysqli|PDO|Sequelize|PlainAuth"
                    + "|mysql_real_connect|login|authenticate|SetBasicAuth|BasicAuth|auth|signWith|createHmac|cookieParser"
                    + "|HMAC(?:256|384|512)|OAuthHandler|SecretKeySpec|require\\('stripe'\\)|ldap_bind|sp_addlogin|load(?=\\())(?:\\s?\\(|\\s(?=[a-z']))");

    private static final Pattern LITERAL =
            Pattern.compile("\\s*(?:[bruL@]?[\"'`])([^\"'`\\s]{4,200})[\"'`](?:\\.\\w{1,20}\\(.{0,20})?\\s*;?\\s*");
    private static final Pattern INSERT = Pattern.compile(
            "(?i)\\binsert\\s{1,4}into\\s{1,4}[^\\s(]{1,80}\\s{0,4}\\(([^()]{1,300})\\)\\s{0,4}values\\s{0,4}\\(");

    private static final int REACH = 400;

    private CallArguments() {}

    static List<String> keywords() {
        return List.of(
                "connect",
                "mysqli",
                "pdo",
                "jwt.",
                "auth",
                "secretkeyspec",
                "sequelize",
                "login",
                "wifi.",
                "signwith",
                "createhmac",
                "cookieparser",
                "hmac",
                "oauthhandler",
                "stripe",
                "ldap_bind",
                "load(",
                "insert into");
    }

    static void find(String line, SecretFinding.FindingSet findings) {
        inserted(line, findings);
        Matcher call = CALL.matcher(line);
        while (call.find()) {
            String name = call.group(1).toLowerCase(Locale.ROOT);
            List<int[]> arguments = arguments(line, call.end());
            Integer password = PASSWORD_AT.get(name);
            // a keystore's password is a char array; other load methods have no password
            if (password != null && (!name.equals("load") || line.contains("\".toCharArray()"))) {
                argument(line, arguments, password, SecretRule.NAMED_PASSWORD, findings);
            }
            if (name.equals("connect")) {
                argument(line, arguments, 3, SecretRule.NAMED_PASSWORD, findings); // after a port
            }
            Integer key = KEY_AT.get(name);
            if (key != null && (!name.equals("login") || arguments.size() == 1)) {
                argument(line, arguments, key, SecretRule.NAMED_SECRET, findings);
            }
        }
    }

    /** {@code INSERT INTO users (name, password) VALUES ('…', '…')}: the column names a value. */
    private static void inserted(String line, SecretFinding.FindingSet findings) {
        Matcher insert = INSERT.matcher(line);
        while (insert.find()) {
            List<int[]> columns = arguments(line, insert.start(1));
            List<int[]> values = arguments(line, insert.end());
            for (int i = 0; i < columns.size() && columns.size() == values.size(); i++) {
                String column = line.substring(columns.get(i)[0], columns.get(i)[1]);
                switch (SecretNames.of(column)) {
                    case PASSWORD -> argument(line, values, i, SecretRule.NAMED_PASSWORD, findings);
                    case SECRET, TOKEN -> argument(line, values, i, SecretRule.NAMED_SECRET, findings);
                    case KEY, NONE -> {}
                }
            }
        }
    }

    private static void argument(
            String line, List<int[]> arguments, int index, SecretRule rule, SecretFinding.FindingSet findings) {
        if (index >= arguments.size()) {
            return;
        }
        int[] at = arguments.get(index);
        Matcher literal = LITERAL.matcher(line).region(at[0], at[1]);
        if (literal.matches()) {
            String value = literal.group(1);
            boolean secret =
                    rule == SecretRule.NAMED_PASSWORD ? SecretValues.isBarePassword(value) : SecretValues.isKey(value);
            if (secret) {
                findings.add(literal.start(1), literal.end(1), rule);
            }
        }
    }

    /** Start and end of each argument. A call that continues on the next line ends with this line. */
    private static List<int[]> arguments(String line, int from) {
        List<int[]> arguments = new ArrayList<>();
        int depth = 0;
        char mark = 0;
        int begin = from;
        int end = Math.min(line.length(), from + REACH);
        for (int i = from; i < end; i++) {
            char c = line.charAt(i);
            if (mark != 0) {
                mark = c == mark ? 0 : mark;
            } else if (c == '"' || c == '\'' || c == '`') {
                mark = c;
            } else if (c == '(' || c == '[' || c == '{') {
                depth++;
            } else if (c == ')' || c == ']' || c == '}') {
                if (--depth < 0) {
                    end = i;
                }
            } else if (c == ',' && depth == 0) {
                arguments.add(new int[] {begin, i});
                begin = i + 1;
            }
        }
        arguments.add(new int[] {begin, end});
        return arguments;
    }
}
