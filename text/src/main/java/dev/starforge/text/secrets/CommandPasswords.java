package dev.starforge.text.secrets;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Passwords in command options such as {@code -p}, and passwords piped into commands. */
final class CommandPasswords {
    private static final Pattern USER_OPTION = Pattern.compile(
            "(?:\\s(?:-u|--user|-a|--auth|--proxy-user|-U)[\\s=]?|USERPWD,)\\s?[\"']?([^\\s:\"'/]{1,80}):([^\\s\"'/]{4,200})(?=[\"']?(?:[\\s)]|$))");

    /** Patterns whose last group is the password. */
    private static final Pattern OPTION = Pattern.compile("(?<![\\w-])(?:sshpass\\s+-p\\s?|(?:docker|podman|helm"
            + " registry|az|oc|cf|skopeo)\\s+login\\s.{0,120}?\\s-p\\s+"
            + "|mysql(?:dump|admin|import|show)?\\s.{0,120}?\\s-p|redis-cli\\s.{0,120}?-a\\s+|mongo(?:sh|dump|restore|import|export)?\\s.{0,120}?\\s-p\\s+"
            + "|ldap(?:search|add|modify|delete|whoami|passwd)\\s.{0,120}?\\s-w\\s+|(?:sqlcmd|bcp|isql|ipmitool)\\s.{0,120}?\\s-P\\s?"
            + "|(?:un)?zip\\s.{0,80}?-P\\s+|7za?\\s.{0,80}?\\s-p|user(?:add|mod)\\s.{0,80}?-p\\s+|htpasswd\\s+-\\w*b\\w*\\s+\\S{1,80}\\s+\\S{1,40}\\s+"
            + "|ConvertTo-SecureString\\s+(?:-String\\s+)?|net\\s+user\\s+\\S{1,40}\\s+|-passin\\s+pass:|-passout\\s+pass:"
            + "|smbclient\\s.{0,120}?-U\\s+[\"']?[^\\s%\"']{1,60}%|lftp\\s.{0,40}?-u\\s+[^\\s,]{1,40},|rabbitmqctl\\s+(?:add_user|change_password)\\s+\\S{1,40}\\s+|cqlsh\\s.{0,80}?\\s-p\\s+"
            + "|snmp\\w{2,8}\\s.{0,80}?\\s-[AX]\\s+|x?freerdp\\s.{0,80}?\\s/p:|--password-file=<\\(echo\\s+|enable\\s+secret\\s+(?:[0-9]\\s+)?|sqlplus\\s.{0,40}?\\w{1,40}/)"
            + "([\"']?)([^\\s\"'/@-][^\\s\"']{3,200}?)(?=\\1?(?:[\\s)\"']|@\\w|$))");

    /** {@code echo … | docker login --password-stdin}, {@code echo user:… | chpasswd}. */
    private static final Pattern PIPED = Pattern.compile(
            "\\b(?:echo|printf)\\s(?:-\\w{1,2}\\s)?[\"']?(?:[\\w.-]{1,40}:)?([^\\s\"':|]{4,200})[\"']?\\s{0,4}\\|"
                    + ".{0,120}(?:--password-stdin|chpasswd|passwd\\s.{0,20}--stdin|sudo\\s.{0,20}-S)");

    private static final Pattern SQL = Pattern.compile(
            "(?i)\\bIDENTIFIED\\s{1,8}(?:WITH\\s{1,8}\\w{1,40}\\s{1,8})?(?:BY|AS)\\s{1,8}([\"'])([^\"'\\s]{4,200})\\1");

    private static final Pattern HASHED = Pattern.compile(
            "(?i)\\b(?:insert\\s{1,4}into|update)\\s.{1,300}?\\b(?:md5|sha1|sha2|password|crypt|encrypt)\\('([^'\\s]{6,200})'");

    /** A line of {@code .pgpass}: host, port, database, user, password. */
    private static final Pattern PGPASS =
            Pattern.compile("^[+ -]?[\\w.*-]{1,100}:5432:[\\w.*-]{1,60}:[\\w.*-]{1,60}:(\\S{4,200})$");

    private CommandPasswords() {}

    static List<String> keywords() {
        return List.of(
                "curl",
                "sshpass",
                " login",
                "mysql",
                "redis-cli",
                "-passin",
                "-passout",
                "identified",
                "wget",
                "http ",
                "mongo",
                "ldap",
                "sqlcmd",
                "bcp ",
                "isql",
                "ipmitool",
                "zip ",
                "7z",
                "useradd",
                "usermod",
                "htpasswd",
                "securestring",
                "net user",
                "smbclient",
                "sqlplus",
                "enable secret",
                "lftp",
                "rabbitmqctl",
                "cqlsh",
                "snmp",
                "freerdp",
                "-stdin",
                "chpasswd",
                "sudo",
                ":5432:",
                "-file=<(",
                "insert into");
    }

    static void find(String line, SecretFinding.FindingSet findings) {
        if (line.contains("curl") || line.contains("CURLOPT") || line.contains("http ") || line.contains("wget")) {
            Matcher user = USER_OPTION.matcher(line);
            while (user.find()) {
                if (!SecretValues.isPlaceholder(user.group(2))
                        && !SecretValues.isPlaceholder(user.group(1) + ":" + user.group(2))) {
                    findings.add(user.start(2), user.end(2), SecretRule.COMMAND_PASSWORD);
                }
            }
        }
        each(OPTION, line, SecretRule.COMMAND_PASSWORD, findings);
        each(PIPED, line, SecretRule.COMMAND_PASSWORD, findings);
        each(HASHED, line, SecretRule.NAMED_PASSWORD, findings);
        each(PGPASS, line, SecretRule.COMMAND_PASSWORD, findings);
        Matcher sql = SQL.matcher(line);
        while (sql.find()) {
            if (!SecretValues.isPlaceholder(sql.group(2))) {
                findings.add(sql.start(2), sql.end(2), SecretRule.NAMED_PASSWORD);
            }
        }
    }

    private static void each(Pattern pattern, String line, SecretRule rule, SecretFinding.FindingSet findings) {
        Matcher found = pattern.matcher(line);
        while (found.find()) {
            int last = found.groupCount();
            if (SecretValues.isPassword(found.group(last))) {
                findings.add(found.start(last), found.end(last), rule);
            }
        }
    }
}
