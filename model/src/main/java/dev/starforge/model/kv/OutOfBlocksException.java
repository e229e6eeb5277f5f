package dev.starforge.model.kv;

/** The KV cache has too few blocks. Nothing has changed; a sequence must finish, wait or be preempted. */
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

    /** Returns the number of requested blocks. */
    public int requested() {
        return requested;
    }

    /** Returns the state of the pool at that moment. */
    public BlockPool.BlockPoolStats stats() {
        return stats;
    }
}
