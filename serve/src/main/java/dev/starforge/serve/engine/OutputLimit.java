package dev.starforge.serve.engine;

/** Ends the output of one sequence by its content or by elapsed time. Stateful: each sequence needs its own. */
public interface OutputLimit {
    /** Never ends the output. */
    OutputLimit NONE = new OutputLimit() {
        @Override
        public String pass(String delta) {
            return delta;
        }

        @Override
        public boolean isReached() {
            return false;
        }
    };

    /** Takes the next piece of decoded text; returns the part of it that belongs to the output. */
    String pass(String delta);

    /** Returns true if the output ends here. */
    boolean isReached();
}
