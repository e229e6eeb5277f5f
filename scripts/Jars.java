import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassFileVersion;
import java.lang.classfile.ClassHierarchyResolver;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.MethodModel;
import java.lang.classfile.MethodTransform;
import java.lang.constant.ClassDesc;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.zip.ZipEntry;

/**
 * Makes jars of others fast to start with: {@code java Jars.java LIB}. Two things in them cost a third of a start:
 *
 * <ul>
 *   <li>Signatures. The JVM checks them, with everything that takes, for the first text it reads out of a jar. We got the
 *       jar from a repository by its checksum, and nothing here asks who signed it.
 *   <li>Classes of Java 5, such as picocli's. The JVM's cache leaves them out, since they say nothing about types on the
 *       stack; that is filled in, and they become classes of Java 17.
 * </ul>
 */
final class Jars {
    private static final int FIRST_WITH_STACK_MAPS = ClassFile.JAVA_6_VERSION;

    public static void main(String[] args) throws IOException {
        List<Path> jars;
        try (var files = Files.list(Path.of(args[0]))) {
            jars = files.filter(file -> file.toString().endsWith(".jar")).toList();
        }
        for (Path path : jars) {
            try (JarFile jar = new JarFile(path.toFile(), false)) {
                boolean signed = jar.stream().anyMatch(Jars::isSignature);
                if (signed || jar.stream().anyMatch(entry -> isOld(entry, bytes(jar, entry)))) {
                    Path fresh = path.resolveSibling(path.getFileName() + ".new");
                    rewrite(jar, signed, fresh);
                    Files.move(fresh, path, StandardCopyOption.REPLACE_EXISTING);
                }
            }
        }
    }

    private static boolean isSignature(ZipEntry entry) {
        return entry.getName().matches("META-INF/[^/]*\\.(SF|RSA|DSA|EC)");
    }

    /** Bytes 6 and 7 of a class are its version. */
    private static boolean isOld(ZipEntry entry, byte[] content) {
        return entry.getName().endsWith(".class") && (content[6] << 8 | content[7] & 255) < FIRST_WITH_STACK_MAPS;
    }

    private static byte[] bytes(JarFile jar, ZipEntry entry) {
        try (InputStream in = jar.getInputStream(entry)) {
            return in.readAllBytes();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private static void rewrite(JarFile jar, boolean signed, Path fresh) throws IOException {
        Manifest manifest = new Manifest(jar.getManifest());
        manifest.getMainAttributes().putValue("Rewritten-By", "Starforge, to start faster");
        if (signed) {
            manifest.getEntries().clear(); // sums of every file
        }
        ClassFile classes = ClassFile.of(
                ClassFile.StackMapsOption.GENERATE_STACK_MAPS,
                ClassFile.ClassHierarchyResolverOption.of(
                        ClassHierarchyResolver.ofResourceParsing((ClassDesc name) -> open(jar, name))
                                .orElse(ClassHierarchyResolver.defaultResolver())));
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(fresh), manifest)) {
            for (ZipEntry entry : jar.stream().toList()) {
                if (entry.getName().equals(JarFile.MANIFEST_NAME) || isSignature(entry)) {
                    continue;
                }
                byte[] content = bytes(jar, entry);
                ZipEntry copy = new ZipEntry(entry.getName());
                copy.setTime(entry.getTime());
                out.putNextEntry(copy);
                out.write(isOld(entry, content) ? renewed(classes, classes.parse(content)) : content);
            }
        }
    }

    private static InputStream open(JarFile jar, ClassDesc type) {
        String name = type.descriptorString();
        ZipEntry entry = jar.getEntry(name.substring(1, name.length() - 1) + ".class");
        try {
            return entry == null ? null : jar.getInputStream(entry);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private static byte[] renewed(ClassFile classes, ClassModel old) {
        return classes.transformClass(old, (type, element) -> {
            switch (element) {
                case ClassFileVersion version -> type.withVersion(ClassFile.JAVA_17_VERSION, 0);
                case MethodModel method ->
                    type.transformMethod(method, MethodTransform.transformingCode(CodeTransform.ACCEPT_ALL));
                default -> type.with(element);
            }
        });
    }
}
