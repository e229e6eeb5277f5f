package dev.starforge.serve.generation;

/** Ends a text by its looks or its age; for one text. */
public interface OutputLimit {
    /** A text that may go on. */
    OutputLimit NONE = new OutputLimit() {
        @Override
        public String pass(String piece) {
            return piece;
        }

        @Override
        public boolean isReached() {
            return false;
        }
    };

    /** Takes the next piece; returns what of it belongs to the text. */
    String pass(String piece);

    /** Whether the text ends here. */
    boolean isReached();
}
