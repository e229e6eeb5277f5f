package dev.starforge.cli.process;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

/**
 * Ctrl-C that does not end the program. The JDK's only way to a signal is {@code sun.misc.Signal}, which compilers warn
 * about whatever one says, so it is called by reflection; where it is missing, Ctrl-C ends the program as usual.
 */
public final class CtrlC implements AutoCloseable {
    private volatile boolean came;
    private AutoCloseable restore = () -> {};

    /** One that nobody can press. */
    static CtrlC none() {
        return new CtrlC();
    }

    public static CtrlC watch() {
        CtrlC watched = new CtrlC();
        try {
            Class<?> signal = Class.forName("sun.misc.Signal");
            Class<?> handler = Class.forName("sun.misc.SignalHandler");
            Object interrupt = signal.getConstructor(String.class).newInstance("INT");
            Object ours = Proxy.newProxyInstance(handler.getClassLoader(), new Class<?>[] {handler}, (_, method, _) -> {
                if (method.getName().equals("handle")) {
                    watched.came = true;
                }
                return null;
            });
            Object before = signal.getMethod("handle", signal, handler).invoke(null, interrupt, ours);
            watched.restore = () -> signal.getMethod("handle", signal, handler).invoke(null, interrupt, before);
        } catch (ClassNotFoundException | NoSuchMethodException missing) {
            return watched;
        } catch (InstantiationException | IllegalAccessException | InvocationTargetException refused) {
            throw new IllegalStateException(refused);
        }
        return watched;
    }

    /** Whether it was pressed since {@link #forget}. */
    public boolean came() {
        return came;
    }

    public void forget() {
        came = false;
    }

    @Override
    public void close() {
        try {
            restore.close();
        } catch (Exception failed) {
            throw new IllegalStateException(failed);
        }
    }
}
