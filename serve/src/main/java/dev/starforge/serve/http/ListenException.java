package dev.starforge.serve.http;

import java.io.IOException;
import java.net.BindException;
import java.net.InetSocketAddress;

/** A server cannot listen on its address. */
public final class ListenException extends IOException {
    private static final long serialVersionUID = 1;

    private final boolean portInUse;

    ListenException(InetSocketAddress address, IOException cause) {
        super(
                "http: cannot listen on " + address.getHostString() + ":" + address.getPort() + ": " + reason(cause),
                cause);
        portInUse = isInUse(cause);
    }

    private static String reason(IOException cause) {
        return isInUse(cause) ? "the port is in use" : String.valueOf(cause.getMessage());
    }

    private static boolean isInUse(IOException cause) {
        return cause instanceof BindException
                && String.valueOf(cause.getMessage()).contains("in use");
    }

    public boolean isPortInUse() {
        return portInUse;
    }
}
