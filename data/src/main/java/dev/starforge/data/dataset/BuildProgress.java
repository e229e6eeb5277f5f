package dev.starforge.data.dataset;

/** Whoever wants to know how far the work is; called by one thread at a time. */
public interface BuildProgress {
    /** A stage begins; {@code total} is how many {@link #advance}s it will take. */
    void begin(String stage, long total);

    void advance();

    /** Something a person should know. */
    void say(String message);
}
