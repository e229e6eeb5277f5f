package dev.starforge.conformance;

import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.lang.conditions.ArchPredicates.are;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static java.util.stream.Collectors.toCollection;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaAccess;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.EvaluationResult;
import com.tngtech.archunit.library.dependencies.SliceAssignment;
import com.tngtech.archunit.library.dependencies.SliceIdentifier;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleDescriptor.Requires;
import java.net.URL;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The allowed dependencies. The compiler checks modules against their descriptors; this test checks the descriptors, and the packages of
 * a module, against {@link #MAY_USE}, which needs a row for every new module.
 */
class ArchitectureTest {
    private static final String ROOT = "dev.starforge.";

    /** Nothing above a backend imports it: no row names one. Kernels are for backends that compile them. */
    private static final Map<String, Set<String>> MAY_USE = Map.ofEntries(
            Map.entry("tensor", Set.of()),
            Map.entry("cpu", Set.of("tensor")),
            Map.entry("kernels", Set.of("tensor")),
            Map.entry("cuda", Set.of("tensor", "kernels")),
            Map.entry("metal", Set.of("tensor", "kernels")),
            Map.entry("grammar", Set.of()),
            Map.entry("text", Set.of()),
            Map.entry("data", Set.of("text")),
            Map.entry("model", Set.of("tensor")),
            Map.entry("train", Set.of("tensor", "model", "text", "data")),
            Map.entry("api", Set.of("tensor", "model", "text", "data", "train", "serve")),
            Map.entry("serve", Set.of("tensor", "model", "text")),
            Map.entry("cli", Set.of("tensor", "model", "text", "data", "train", "serve", "api")),
            Map.entry("conformance", Set.of("tensor", "model", "text", "data", "train")));

    /** The only class that gives JGit access to system properties. */
    private static final Set<String> MAY_READ_PROPERTIES = Set.of("dev.starforge.data.git.ReadOnlyConfig");

    private static final JavaClasses CLASSES = new ClassFileImporter()
            .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
            .importPackages("dev.starforge");

    static Set<String> modules() {
        return new TreeSet<>(MAY_USE.keySet());
    }

    @Test
    void everyModuleHasDependencyRules() {
        Set<String> found = CLASSES.stream().map(ArchitectureTest::module).collect(toCollection(TreeSet::new));
        assertThat(found).isEqualTo(modules());
    }

    @ParameterizedTest
    @MethodSource("modules")
    void usesOnlyAllowedModules(String module) {
        List<String> others = new ArrayList<>(modules());
        others.remove(module);
        others.removeAll(MAY_USE.get(module));
        noClasses()
                .that()
                .resideInAPackage(ROOT + module + "..")
                .should()
                .dependOnClassesThat(resideInAnyPackage(
                        others.stream().map(other -> ROOT + other + "..").toArray(String[]::new)))
                .check(CLASSES);
    }

    @ParameterizedTest
    @MethodSource("modules")
    void hasNoPackageCycles(String module) {
        EvaluationResult result = slices().assignedFrom(new PackagesOf(module))
                .should()
                .beFreeOfCycles()
                .allowEmptyShould(true)
                .evaluate(CLASSES);
        assertThat(result.getFailureReport().getDetails()).isEmpty();
    }

    /** The pool holds no model: what loads one, or a backend, is a process of its own, which may fail without it. */
    @Test
    void poolDoesNotDependOnModel() {
        noClasses()
                .that()
                .resideInAPackage(ROOT + "serve.pool..")
                .should()
                .dependOnClassesThat(resideInAnyPackage(
                        ROOT + "model..",
                        ROOT + "tensor..",
                        ROOT + "serve",
                        ROOT + "serve.engine..",
                        ROOT + "serve.generation..",
                        ROOT + "serve.scheduler.."))
                .check(CLASSES);
    }

    /** A descriptor must not require more modules than {@link #MAY_USE} lists, even if no class uses them. */
    @Test
    void moduleDescriptorsMatchRules() throws IOException {
        Set<String> seen = new TreeSet<>();
        for (URL url : Collections.list(getClass().getClassLoader().getResources("module-info.class"))) {
            ModuleDescriptor descriptor;
            try (InputStream in = url.openStream()) {
                descriptor = ModuleDescriptor.read(in);
            }
            if (!descriptor.name().startsWith(ROOT)) {
                continue;
            }
            String module = descriptor.name().substring(ROOT.length());
            seen.add(module);
            Set<String> ours = new TreeSet<>();
            for (Requires required : descriptor.requires()) {
                if (required.name().startsWith(ROOT)) {
                    ours.add(required.name().substring(ROOT.length()));
                }
                assertThat(required.name().equals("jdk.incubator.vector"))
                        .as("%s requires the Vector API", module)
                        .isEqualTo(module.equals("cpu") && required.name().equals("jdk.incubator.vector"));
                assertThat(!required.name().equals("org.jspecify")
                                || required.modifiers().contains(Requires.Modifier.STATIC))
                        .as("%s requires org.jspecify only to compile", module)
                        .isTrue();
            }
            assertThat(MAY_USE.get(module)).as(module).containsAll(ours);
            if (Set.of("cpu", "cuda", "metal").contains(module)) {
                assertThat(descriptor.exports()).as(module).isEmpty();
            }
            assertThat(descriptor.exports().stream().filter(each -> !each.isQualified()))
                    .as("%s exports to everybody", module)
                    .hasSize(module.equals("api") ? 1 : 0);
        }
        Set<String> expected = modules();
        expected.remove("grammar"); // a program of its own, with no descriptor
        assertThat(seen).isEqualTo(expected);
    }

    @Test
    void onlyCliReadsEnvironmentAndProperties() {
        Set<String> names = Set.of("getenv", "getProperty", "getProperties", "getBoolean", "getInteger", "getLong");
        Set<String> owners = Set.of("java.lang.System", "java.lang.Boolean", "java.lang.Integer", "java.lang.Long");
        noClasses()
                .that(are(DescribedPredicate.describe(
                        "outside cli and the exceptions",
                        each -> !module(each).equals("cli") && !MAY_READ_PROPERTIES.contains(each.getName()))))
                .should()
                .accessTargetWhere(accesses(
                        "the environment or properties",
                        access -> names.contains(access.getTarget().getName())
                                && owners.contains(access.getTargetOwner().getName())))
                .check(CLASSES);
    }

    /** Commands write through picocli's writers; libraries return their results. */
    @Test
    void onlyProgramsWriteToStandardOutput() {
        noClasses()
                .that(are(DescribedPredicate.describe(
                        "libraries",
                        each -> !Set.of("cli", "grammar", "conformance").contains(module(each)))))
                .should()
                .accessTargetWhere(accesses(
                        "standard output or error, or the end of the process",
                        access -> access.getTargetOwner().isEquivalentTo(System.class)
                                && Set.of("out", "err", "exit")
                                        .contains(access.getTarget().getName())))
                .check(CLASSES);
    }

    @Test
    void nothingUsesLoggingFrameworks() {
        noClasses()
                .should()
                .dependOnClassesThat(resideInAnyPackage(
                        "java.util.logging..", "org.slf4j..", "org.apache.logging..", "org.apache.commons.logging.."))
                .orShould()
                .dependOnClassesThat()
                .areAssignableTo(System.Logger.class)
                .check(CLASSES);
    }

    @Test
    void onlyBackendsCallNativeCode() {
        noClasses()
                .that()
                .resideOutsideOfPackages(ROOT + "cuda..", ROOT + "metal..", ROOT + "cpu.machine..")
                .should()
                .dependOnClassesThat()
                .belongToAnyOf(Linker.class, SymbolLookup.class)
                .check(CLASSES);
    }

    /** The module of a class; empty if it is not part of the project. */
    private static String module(JavaClass each) {
        if (!each.getPackageName().startsWith(ROOT)) {
            return "";
        }
        String rest = each.getPackageName().substring(ROOT.length());
        return rest.contains(".") ? rest.substring(0, rest.indexOf('.')) : rest;
    }

    private static DescribedPredicate<JavaAccess<?>> accesses(String what, Predicate<JavaAccess<?>> test) {
        return DescribedPredicate.describe(what, test);
    }

    private record PackagesOf(String module) implements SliceAssignment {
        @Override
        public SliceIdentifier getIdentifierOf(JavaClass each) {
            return ArchitectureTest.module(each).equals(module)
                    ? SliceIdentifier.of(each.getPackageName())
                    : SliceIdentifier.ignore();
        }

        @Override
        public String getDescription() {
            return "packages of " + module;
        }
    }
}
