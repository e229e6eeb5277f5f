package dev.starforge.serve.pool.proxy;

import dev.starforge.serve.api.AccessControl;
import dev.starforge.serve.api.StartSecret;
import java.util.random.RandomGenerator;

/**
 * Names tenants to workers, which keep the prefix caches of tenants separate. The name is derived from the hash of a client's key with a
 * secret of this pool: from the hash alone, a worker could guess a weak key.
 */
public final class TenantNames {
    private final StartSecret salt;

    public TenantNames(RandomGenerator random) {
        salt = StartSecret.random(random);
    }

    /** @param tenant empty for clients without a key */
    String name(String tenant) {
        return tenant.isEmpty() ? AccessControl.NO_TENANT : salt.tenantName(tenant);
    }
}
