package dev.starforge.data.git;

import java.io.File;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.StoredConfig;
import org.eclipse.jgit.storage.file.FileBasedConfig;
import org.eclipse.jgit.storage.file.WindowCacheConfig;
import org.eclipse.jgit.util.FS;
import org.eclipse.jgit.util.SystemReader;
import org.jspecify.annotations.Nullable;

/**
 * Keeps JGit from reading or changing this machine's configuration. By default JGit runs {@code git} to find the system
 * configuration, reads the user's, and measures the resolution of file times by writing probe files and storing the result in
 * the user's home. JGit has one system reader per process, so it is installed permanently.
 */
public final class ReadOnlyConfig extends SystemReader {
    private static final ReadOnlyConfig INSTANCE = new ReadOnlyConfig();

    /** JGit's default cache sizes suit a server with many repositories; here one repository is read from end to end. */
    private static final long PACK_BYTES = 128L << 20;

    private static final int PACK_WINDOW = 64 << 10;

    /** Per thread. */
    private static final int BASE_BYTES = 48 << 20;

    private ReadOnlyConfig() {}

    public static void install() {
        if (SystemReader.getInstance() != INSTANCE) {
            SystemReader.setInstance(INSTANCE);
            WindowCacheConfig cache = new WindowCacheConfig();
            cache.setPackedGitLimit(PACK_BYTES);
            cache.setPackedGitWindowSize(PACK_WINDOW);
            cache.setDeltaBaseCacheLimit(BASE_BYTES);
            cache.install();
        }
    }

    @Override
    public String getHostname() {
        return "localhost";
    }

    @Override
    public @Nullable String getenv(String variable) {
        return null;
    }

    @Override
    public String getProperty(String key) {
        return System.getProperty(key);
    }

    @Override
    public FileBasedConfig openUserConfig(@Nullable Config parent, FS fs) {
        return new EmptyConfig(parent, fs);
    }

    @Override
    public FileBasedConfig openSystemConfig(@Nullable Config parent, FS fs) {
        return new EmptyConfig(parent, fs);
    }

    @Override
    public FileBasedConfig openJGitConfig(@Nullable Config parent, FS fs) {
        return new EmptyConfig(parent, fs);
    }

    @Override
    public StoredConfig getUserConfig() {
        return openUserConfig(null, FS.DETECTED);
    }

    @Override
    public StoredConfig getSystemConfig() {
        return openSystemConfig(null, FS.DETECTED);
    }

    @Override
    public StoredConfig getJGitConfig() {
        return openJGitConfig(null, FS.DETECTED);
    }

    @Override
    @Deprecated
    @SuppressWarnings("deprecation")
    public long getCurrentTime() {
        return 0;
    }

    @Override
    @Deprecated
    @SuppressWarnings("deprecation")
    public int getTimezone(long when) {
        return 0;
    }

    /** An empty configuration without a file. It sets the resolution of file times, so that JGit does not measure it. */
    private static final class EmptyConfig extends FileBasedConfig {
        EmptyConfig(@Nullable Config parent, FS fs) {
            super(parent, new File(""), fs);
        }

        @Override
        public void load() {}

        @Override
        public boolean isOutdated() {
            return false;
        }

        @Override
        public void save() {}

        @Override
        public long getTimeUnit(String section, String subsection, String name, long missing, TimeUnit wanted) {
            return section.equals("filesystem")
                    ? wanted.convert(1, TimeUnit.SECONDS)
                    : super.getTimeUnit(section, subsection, name, missing, wanted);
        }
    }
}
