package dev.starforge.model.kv;

/** No room in the KV cache for what was asked; nothing has changed. Some sequence must end, wait or be preempted. */
public final class OutOfBlocksException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int requested;
    private final transient BlockPool.BlockPoolStats stats;

    OutOfBlocksException(int asked, BlockPool.BlockPoolStats figures) {
        super("append: " + asked + " more KV blocks needed, " + figures.free() + " free, " + figures.cached()
                + " cached and can be evicted, " + figures.held()
                + " held by sequences; close or preempt a sequence, or give the KV cache more memory");
        this.requested = asked;
        this.stats = figures;
    }

    /** How many blocks were asked for. */
    public int requested() {
        return requested;
    }

    /** The pool when it refused. */
    public BlockPool.BlockPoolStats stats() {
        return stats;
    }
}
