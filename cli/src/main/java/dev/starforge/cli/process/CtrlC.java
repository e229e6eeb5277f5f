package dev.starforge.cli.process;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

/**
 * Handles SIGINT without exiting. Uses {@code sun.misc.Signal} by reflection, since javac warns about it unconditionally. If the
 * class is missing, Ctrl-C exits as usual.
 */
public final class CtrlC implements AutoCloseable {
    private volatile boolean came;
    private AutoCloseable restore = () -> {};

    /** Returns an instance that never receives a signal. */
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

    /** Returns true if Ctrl-C was pressed since {@link #forget}. */
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
