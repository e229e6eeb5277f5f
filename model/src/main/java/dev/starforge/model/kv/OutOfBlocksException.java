package dev.starforge.model.kv;

/** No room in the KV cache for what was asked; nothing has changed. Some sequence must end, wait or be preempted. */
public final class OutOfBlocksException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int asked;
    private final transient BlockPool.Figures figures;

    OutOfBlocksException(int asked, BlockPool.Figures figures) {
        super("append: " + asked + " more KV blocks needed, " + figures.free() + " free, " + figures.cached()
                + " cached and can be evicted, " + figures.held()
                + " held by sequences; close or preempt a sequence, or give the KV cache more memory");
        this.asked = asked;
        this.figures = figures;
    }

    /** How many blocks were asked for. */
    public int asked() {
        return asked;
    }

    /** The pool when it refused. */
    public BlockPool.Figures figures() {
        return figures;
    }
}
