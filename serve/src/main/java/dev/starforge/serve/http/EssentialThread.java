package dev.starforge.serve.http;

/**
 * A thread without which a server is alive but does not serve, such as the one that accepts connections. If its body throws, {@link
 * DiedException} reaches the default handler of uncaught exceptions; the commands that serve end their process there, with an exit code
 * that lets a supervisor restart it.
 */
public final class EssentialThread {
    private EssentialThread() {}

    /** An essential thread has ended with an exception. */
    public static final class DiedException extends RuntimeException {
        private static final long serialVersionUID = 1;

        DiedException(String thread, Throwable cause) {
            super("thread \"" + thread + "\" died: " + cause, cause);
        }
    }

    /** Starts a daemon thread, which may end by returning. */
    public static Thread start(String name, Runnable body) {
        return Thread.ofPlatform().name(name).daemon().start(() -> {
            try {
                body.run();
            } catch (Throwable failure) {
                throw new DiedException(name, failure);
            }
        });
    }
}
