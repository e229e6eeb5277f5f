import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.attribute.ModuleResolutionAttribute;
import java.lang.module.Configuration;
import java.lang.module.ModuleFinder;
import java.lang.module.ResolvedModule;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import jdk.tools.jlink.internal.PluginRepository;
import jdk.tools.jlink.plugin.Plugin;
import jdk.tools.jlink.plugin.ResourcePool;
import jdk.tools.jlink.plugin.ResourcePoolBuilder;
import jdk.tools.jlink.plugin.ResourcePoolEntry;

/**
 * Links a Java runtime for a folder of jars: {@code java Link.java LIB OUT}. It contains the modules that the jars require and a few
 * that are used at run time. The jars stay outside, because jlink does not accept automatic modules.
 *
 * <p>It also removes the mark of {@code jdk.incubator.vector} as an incubator module. The mark makes every start print a warning, and
 * keeps the JVM from storing the module graph in its AOT cache, which costs a third of the start-up time. This needs a jlink plugin,
 * whose interface the JDK does not export; if it changes, linking fails and the caller uses the JDK instead.
 */
final class Link implements Plugin {

    /** Modules that no jar requires: an HTTP client for callbacks, flight recordings of slow runs. */
    private static final List<String> ADDITIONAL = List.of("java.net.http", "jdk.jfr", "jdk.management");

    public static void main(String[] args) {
        PluginRepository.registerPlugin(new Link());
        var jlink = ToolProvider.findFirst("jlink").orElseThrow();
        System.exit(jlink.run(
                System.out,
                System.err,
                "--add-modules",
                Stream.concat(ADDITIONAL.stream(), required(Path.of(args[0])))
                        .distinct()
                        .collect(Collectors.joining(",")),
                "--strip-java-debug-attributes", // --strip-debug would need objcopy
                "--no-header-files",
                "--no-man-pages",
                "--output",
                args[1]));
    }

    private static Stream<String> required(Path lib) {
        var jars = ModuleFinder.of(lib);
        var ours = jars.findAll().stream().map(m -> m.descriptor().name()).collect(Collectors.toSet());
        return Configuration.empty().resolve(jars, ModuleFinder.ofSystem(), ours).modules().stream()
                .map(ResolvedModule::name)
                .filter(name -> !ours.contains(name));
    }

    /** Runs before the plugin that compiles module declarations, which is a transformer. */
    @Override
    public Category getType() {
        return Category.FILTER;
    }

    @Override
    public Set<State> getState() {
        return EnumSet.of(State.AUTO_ENABLED, State.FUNCTIONAL);
    }

    @Override
    public ResourcePool transform(ResourcePool in, ResourcePoolBuilder out) {
        in.transformAndCopy(
                entry -> entry.path().equals("/jdk.incubator.vector/module-info.class") ? withoutMark(entry) : entry,
                out);
        return out.build();
    }

    private static ResourcePoolEntry withoutMark(ResourcePoolEntry moduleInfo) {
        var classFile = ClassFile.of();
        var parsed = classFile.parse(moduleInfo.contentBytes());
        var mark = ClassTransform.dropping(element -> element instanceof ModuleResolutionAttribute);
        return moduleInfo.copyWithContent(classFile.transformClass(parsed, mark));
    }
}
