package dev.starforge.text.secrets;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Key formats published by providers: a prefix, an alphabet, a length. Each format is one row. Keys without a
 * distinctive prefix are found by their middle or end.
 */
final class ProviderKeys {
    private static final String ALNUM = "[0-9A-Za-z]";
    private static final String HEX = "[0-9a-f]";
    private static final String ANY_HEX = "[0-9a-fA-F]";
    private static final String WORD = "[0-9A-Za-z_-]";
    private static final String BASE64 = "[0-9A-Za-z+/]";
    private static final String CRYPT_HASH = "crypt";
    private static final String CRYPT = "[0-9A-Za-z./]";

    /**
     * A key format.
     *
     * @param anchor text that every such key contains, used to select lines
     * @param loose whether names can have this format too, so that the key must also look random
     */
    private record KeyPattern(String provider, String anchor, boolean begins, Pattern pattern, boolean loose) {
        /** Returns the next possible start of a key. */
        int next(String line, int from, Matcher matcher) {
            if (!begins) {
                return matcher.find(from) ? matcher.start() : -1;
            }
            int at = line.indexOf(anchor, from);
            while (at >= 0 && !matcher.region(at, line.length()).lookingAt()) {
                at = line.indexOf(anchor, at + 1);
            }
            return at;
        }
    }

    private static final List<KeyPattern> SHAPES = new ArrayList<>();

    static {
        for (String kind : "AKIA ASIA ABIA ACCA AGPA AIDA AROA ANPA".split(" ")) {
            prefix("aws", kind, "[A-Z0-9]{16}");
        }
        prefix("aws", "ABSK", BASE64 + "{100,280}={0,2}");
        for (String kind : "ghp_ gho_ ghu_ ghs_ ghr_".split(" ")) {
            prefix("github", kind, ALNUM + "{36,255}");
        }
        prefix("github", "github_pat_", "[0-9A-Za-z_]{22,255}");
        for (String kind : "glpat- gldt- glft- glrt- glsoat- glffct- glimt- glagent- gloas- glptt-".split(" ")) {
            prefix("gitlab", kind, "[0-9A-Za-z_-]{20,300}(?:\\.[0-9a-z]{9})?");
        }
        prefix("gitlab", "glcbt-", ALNUM + "{1,5}_" + WORD + "{20}");
        prefix("gitlab", "GR1348941", WORD + "{20}");
        for (String kind : "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-".split(" ")) {
            prefix("slack", kind, "[0-9A-Za-z-]{10,250}");
        }
        prefix("slack", "xapp-", "[0-9]-[0-9A-Z]{5,20}-[0-9]{5,20}-[0-9a-z]{20,100}");
        inside(
                "slack",
                "hooks.slack.com",
                "https://hooks\\.slack\\.com/(?:services|workflows|triggers)/[0-9A-Za-z+/]{40,60}");
        inside(
                "discord",
                "/api/webhooks/",
                "https://(?:\\w{2,8}\\.)?discord(?:app)?\\.com/api/webhooks/[0-9]{17,20}/" + WORD + "{60,80}");
        inside(
                "teams",
                "webhook.office.com",
                "https://[0-9a-z]{1,60}\\.webhook\\.office\\.com/webhookb2/[0-9A-Za-z@/-]{80,200}");
        prefix("google", "AIza", WORD + "{35}");
        prefix("google", "ya29.", WORD + "{20,400}");
        prefix("google", "GOCSPX-", WORD + "{28}");
        for (String kind : "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_".split(" ")) {
            prefix("stripe", kind, ALNUM + "{10,247}");
        }
        prefix("anthropic", "sk-ant-", WORD + "{20,200}");
        prefix("openai", "sk-proj-", WORD + "{20,250}");
        prefix("openai", "sk-svcacct-", WORD + "{20,250}");
        prefix("openai", "sk-admin-", WORD + "{20,250}");
        prefix("openai", "sk-", ALNUM + "{32,80}");
        loosePrefix("openai", "sk-", WORD + "{20,250}");
        prefix("perplexity", "pplx-", ALNUM + "{40,60}");
        prefix("groq", "gsk_", ALNUM + "{40,60}");
        prefix("xai", "xai-", ALNUM + "{70,90}");
        prefix("replicate", "r8_", ALNUM + "{37,40}");
        prefix("huggingface", "hf_", ALNUM + "{30,40}");
        prefix("huggingface", "api_org_", "[A-Za-z]{34}");
        prefix("npm", "npm_", ALNUM + "{36}");
        prefix("pypi", "pypi-", WORD + "{50,1000}");
        prefix("rubygems", "rubygems_", HEX + "{48}");
        prefix("clojars", "CLOJARS_", "[0-9A-Za-z]{60}");
        prefix("docker", "dckr_pat_", WORD + "{27}");
        prefix("docker", "dckr_oat_", WORD + "{27,32}");
        prefix("sendgrid", "SG.", WORD + "{16,32}\\." + WORD + "{16,64}");
        prefix("sendinblue", "xkeysib-", HEX + "{64}-" + ALNUM + "{16}");
        prefix("mailgun", "key-", HEX + "{32}");
        prefix("mailgun", "pubkey-", HEX + "{32}");
        inside("mailchimp", "-us", HEX + "{32}-us[0-9]{1,2}");
        prefix("twilio", "SK", HEX + "{32}");
        inside("telegram", ":A", "[0-9]{8,10}:A" + WORD + "{34}");
        for (String kind : "dop_v1_ doo_v1_ dor_v1_".split(" ")) {
            prefix("digitalocean", kind, HEX + "{64}");
        }
        for (String kind : "shpat_ shpca_ shppa_ shpss_".split(" ")) {
            prefix("shopify", kind, ANY_HEX + "{32}");
        }
        prefix("databricks", "dapi", HEX + "{32}(?:-[0-9])?");
        prefix("doppler", "dp.", "(?:pt|st|sa|ct|scim|audit)\\.(?:[0-9a-z_-]{2,35}\\.)?" + ALNUM + "{40,44}");
        prefix("dynatrace", "dt0c01.", "[0-9A-Z]{24}\\.[0-9A-Z]{64}");
        prefix("grafana", "glsa_", ALNUM + "{32}_" + ANY_HEX + "{8}");
        prefix("grafana", "glc_", BASE64 + "{32,400}={0,3}");
        prefix("grafana", "eyJrIjoi", ALNUM + "{70,400}={0,3}");
        prefix("linear", "lin_api_", ALNUM + "{40}");
        prefix("postman", "PMAK-", HEX + "{24}-" + HEX + "{34}");
        prefix("pulumi", "pul-", HEX + "{40}");
        prefix("sentry", "sntryu_", HEX + "{64}");
        prefix("sentry", "sntrys_", "[0-9A-Za-z+/=_-]{50,400}");
        prefix("square", "sq0atp-", WORD + "{22,60}");
        prefix("square", "sq0csp-", WORD + "{43}");
        prefix("square", "sq0idp-", WORD + "{22}");
        prefix("square", "EAAA", WORD + "{60}");
        prefix("facebook", "EAAC", ALNUM + "{100,300}");
        prefix("facebook", "EAAM", ALNUM + "{100,300}");
        prefix("vault", "hvs.", WORD + "{24,200}");
        prefix("vault", "hvb.", WORD + "{100,300}");
        prefix("vault", "hvr.", WORD + "{24,200}");
        inside("terraform", ".atlasv1.", ALNUM + "{14}\\.atlasv1\\." + WORD + "{60,70}");
        prefix("notion", "ntn_", "[0-9]{11}" + ALNUM + "{35}");
        loosePrefix("notion", "secret_", ALNUM + "{43}");
        prefix("newrelic", "NRAK-", "[0-9A-Z]{27}");
        prefix("newrelic", "NRII-", "[0-9A-Za-z-]{32}");
        prefix("newrelic", "NRJS-", HEX + "{19}");
        for (String kind : "pscale_tkn_ pscale_pw_ pscale_oauth_".split(" ")) {
            prefix("planetscale", kind, "[0-9A-Za-z_.=-]{32,64}");
        }
        prefix("age", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}");
        prefix("1password", "ops_eyJ", BASE64 + "{200,1000}={0,3}");
        prefix("1password", "A3-", "[0-9A-Z]{6}-[0-9A-Z]{5,11}-(?:[0-9A-Z]{5}-){2,3}[0-9A-Z]{5}");
        prefix("atlassian", "ATATT3", "[0-9A-Za-z_=-]{180,200}");
        prefix("bitbucket", "ATBB", ALNUM + "{32}");
        prefix("bitbucket", "ATCTT3", "[0-9A-Za-z_=-]{180,200}");
        prefix("alibaba", "LTAI", ALNUM + "{12,20}");
        prefix("tencent", "AKID", ALNUM + "{32}");
        prefix("yandex", "AQVN", WORD + "{35,38}");
        inside("azure", "Q~", "[0-9A-Za-z_~.]{3}[0-9]Q~[0-9A-Za-z_~.-]{31,34}");
        inside("airtable", "pat", "pat" + ALNUM + "{14}\\." + HEX + "{64}");
        prefix("contentful", "CFPAT-", WORD + "{43}");
        prefix("figma", "figd_", WORD + "{40,44}");
        prefix("heroku", "HRKU-AA", WORD + "{58}");
        prefix("fly", "fo1_", WORD + "{43}");
        prefix("fly", "fm2_", BASE64 + "{100,700}={0,3}");
        prefix("supabase", "sbp_", HEX + "{40}");
        prefix("artifactory", "AKCp", ALNUM + "{69}");
        prefix("artifactory", "cmVmd", ALNUM + "{59}");
        prefix("openshift", "sha256~", WORD + "{43}");
        prefix("easypost", "EZAK", ALNUM + "{54}");
        prefix("easypost", "EZTK", ALNUM + "{54}");
        prefix("shippo", "shippo_", "(?:live|test)_" + HEX + "{40}");
        prefix("typeform", "tfp_", "[0-9A-Za-z_.=-]{59}");
        prefix("infracost", "ico-", ALNUM + "{32}");
        prefix("prefect", "pnu_", ALNUM + "{36}");
        prefix("readme", "rdme_", "[0-9a-z]{70}");
        for (String kind : "sm_aat_ sm_pat_ sm_sat_".split(" ")) {
            prefix("settlemint", kind, ALNUM + "{16}");
        }
        prefix("flutterwave", "FLWSECK", "(?:_TEST)?-[0-9a-h]{12,32}(?:-X)?");
        prefix("duffel", "duffel_", "(?:live|test)_" + WORD + "{43}");
        prefix("frameio", "fio-u-", WORD + "{64}");
        prefix("scalingo", "tk-us-", WORD + "{48}");
        prefix("harness", "pat.", WORD + "{22}\\." + ALNUM + "{24}\\." + ALNUM + "{20}");
        prefix("octopus", "API-", "[0-9A-Z]{26}");
        prefix("cloudflare", "v1.0-", HEX + "{24}-" + HEX + "{146}");
        prefix("defined", "dnkey-", WORD + "{26}-" + WORD + "{52}");
        loosePrefix("dropbox", "sl.", WORD + "{130,150}");
        prefix("mapbox", "sk.eyJ1", ALNUM + "{50,90}\\." + WORD + "{22}");
        prefix("adobe", "p8e-", "[0-9a-z]{32}");
        prefix("sourcegraph", "sgp_", "(?:[0-9a-f]{16}_|local_)?" + HEX + "{40}");
        prefix("intra42", "s-s4t2", "(?:ud|af)-" + HEX + "{64}");
        inside("maxmind", "_mmk", ALNUM + "{6}_" + ALNUM + "{29}_mmk");
        prefix(CRYPT_HASH, "$apr1$", CRYPT + "{1,8}\\$" + CRYPT + "{22}");
        prefix(CRYPT_HASH, "$1$", CRYPT + "{1,8}\\$" + CRYPT + "{22}");
        prefix(CRYPT_HASH, "$5$", "(?:rounds=[0-9]{1,9}\\$)?" + CRYPT + "{1,16}\\$" + CRYPT + "{43}");
        prefix(CRYPT_HASH, "$6$", "(?:rounds=[0-9]{1,9}\\$)?" + CRYPT + "{1,16}\\$" + CRYPT + "{86}");
        for (String kind : "$argon2i$ $argon2d$ $argon2id$".split(" ")) {
            prefix(
                    CRYPT_HASH,
                    kind,
                    "v=[0-9]+\\$m=[0-9]+,t=[0-9]+,p=[0-9]+\\$[0-9A-Za-z+/]{8,64}\\$[0-9A-Za-z+/]{16,128}");
        }
        for (String kind : "$2a$ $2b$ $2y$".split(" ")) {
            prefix(CRYPT_HASH, kind, "[0-9]{2}\\$" + CRYPT + "{53}");
        }
    }

    private ProviderKeys() {}

    private static void prefix(String provider, String prefix, String body) {
        SHAPES.add(new KeyPattern(provider, prefix, true, pattern(Pattern.quote(prefix) + body), false));
    }

    private static void loosePrefix(String provider, String prefix, String body) {
        SHAPES.add(new KeyPattern(provider, prefix, true, pattern(Pattern.quote(prefix) + body), true));
    }

    private static void inside(String provider, String anchor, String shape) {
        SHAPES.add(new KeyPattern(provider, anchor, false, pattern(shape), false));
    }

    private static Pattern pattern(String shape) {
        return Pattern.compile("(?<![0-9A-Za-z_])(?:" + shape + ")(?![0-9A-Za-z_])");
    }

    static List<String> anchors() {
        return SHAPES.stream().map(KeyPattern::anchor).distinct().toList();
    }

    static void find(String line, SecretFinding.FindingSet findings) {
        for (KeyPattern shape : SHAPES) {
            if (!line.contains(shape.anchor())) {
                continue;
            }
            Matcher matcher = shape.pattern().matcher(line).useTransparentBounds(true);
            for (int at = shape.next(line, 0, matcher); at >= 0; at = shape.next(line, matcher.end(), matcher)) {
                String key = matcher.group();
                if (!SecretValues.isSample(key)
                        && (!shape.loose() || Gibberish.of(key).isRandom())) {
                    SecretRule rule =
                            shape.provider().equals(CRYPT_HASH) ? SecretRule.PASSWORD_HASH : SecretRule.PROVIDER_KEY;
                    findings.add(at, matcher.end(), rule);
                }
            }
        }
    }
}
