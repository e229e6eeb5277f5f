package dev.starforge.cli.hub;

import dev.starforge.text.ErrorMessage;
import java.io.IOException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpTimeoutException;
import java.nio.channels.UnresolvedAddressException;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertificateException;
import java.time.Duration;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLException;

/** Why a host was not reached, in words. */
final class NetworkFailure {
    /** What a user can do if the hub is not reached at all. */
    static final String ADVICE = ". If this network needs a proxy, set HTTPS_PROXY=http://HOST:PORT; for a mirror, set"
            + " HF_ENDPOINT=https://HOST. Without a network, copy the files of the model to this machine and pass their"
            + " path, e.g. `starforge serve FILE.gguf`";

    private NetworkFailure() {}

    /** The resolver of the system gave no answer in time. */
    static final class ResolverTimeout extends IOException {
        private static final long serialVersionUID = 1;

        ResolverTimeout(TimeoutException cause) {
            super(cause);
        }
    }

    /** @param host that was connected to: a proxy, if there is one */
    static String reason(IOException failure, String host, Hub.Timeouts timeouts) {
        String known = "";
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            String reason = known(cause, host, timeouts);
            known = reason.isEmpty() ? known : reason; // the innermost is the most exact
        }
        return known.isEmpty() ? ErrorMessage.of(failure) : known;
    }

    private static String known(Throwable failure, String host, Hub.Timeouts timeouts) {
        return switch (failure) {
            case UnknownHostException _, UnresolvedAddressException _ ->
                "the name " + host + " cannot be resolved (DNS)";
            case ResolverTimeout _ ->
                "the name " + host + " was not resolved within " + seconds(timeouts.connect()) + " (DNS)";
            case HttpConnectTimeoutException _ -> "no connection within " + seconds(timeouts.connect()) + " (timeout)";
            case HttpTimeoutException _ -> "no answer within " + seconds(timeouts.answer()) + " (timeout)";
            case NoRouteToHostException _ -> "no route to it";
            case ConnectException refused when refused.getMessage() == null -> "connection refused";
            case SocketException other
            when String.valueOf(other.getMessage()).contains("unreachable") -> "the network is unreachable";
            case CertificateException _, CertPathBuilderException _ ->
                "its TLS certificate is not trusted; if a proxy replaces certificates, import the proxy's with keytool"
                        + " and set STARFORGE_JAVA_OPTS=-Djavax.net.ssl.trustStore=FILE";
            case SSLException tls -> "TLS failed: " + tls.getMessage();
            default -> "";
        };
    }

    private static String seconds(Duration time) {
        return time.toMillis() % 1000 == 0 ? time.toSeconds() + " s" : time.toMillis() + " ms";
    }
}
