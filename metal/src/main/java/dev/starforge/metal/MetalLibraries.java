package dev.starforge.metal;

import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Where macOS has the libraries that this backend calls. A test replaces them by one library that stands in for all, so that the
 * backend runs on other systems without a change.
 *
 * @param installed exists if Metal is installed; the libraries themselves are in the system's cache and not in the file system
 * @param objc the Objective-C runtime
 * @param metal the Metal framework
 * @param coreGraphics must be loaded, or Metal finds no device
 */
record MetalLibraries(Path installed, String objc, String metal, String coreGraphics) {
    private static final String FRAMEWORKS = "/System/Library/Frameworks/";

    static final MetalLibraries MACOS = new MetalLibraries(
            Path.of(FRAMEWORKS + "Metal.framework"),
            "/usr/lib/libobjc.A.dylib",
            FRAMEWORKS + "Metal.framework/Metal",
            FRAMEWORKS + "CoreGraphics.framework/CoreGraphics");

    private static volatile MetalLibraries current = MACOS;

    /** The libraries of this process. The bindings read them once, when they are first used. */
    static MetalLibraries current() {
        return current;
    }

    /** For tests. */
    static void replace(MetalLibraries libraries) {
        current = libraries;
    }

    boolean areInstalled() {
        return Files.exists(installed);
    }
}
