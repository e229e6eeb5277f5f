package dev.starforge.serve.generation;

/** Ends a text by its looks or its age; for one text. */
public interface TextLimit {
    /** A text that may go on. */
    TextLimit NONE = new TextLimit() {
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
