package dev.starforge.data.dataset;

/** Receives the progress of a build; its methods are called by one thread at a time. */
public interface BuildProgress {
    /** A stage begins; {@code total} is the expected number of {@link #advance} calls, 0 if unknown. */
    void begin(String stage, long total);

    void advance();

    /** Receives a message for the user. */
    void message(String text);
}
