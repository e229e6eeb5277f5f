package dev.starforge.cli.command;

import dev.starforge.cli.model.Environment;
import dev.starforge.cli.options.DeviceSelectionFlags;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.output.Terminal;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.plan.MachineFacts;
import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "devices",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        description = {
            "Show the compute devices, and which one is selected.",
            "",
            "Also says why it was selected, and why each other backend was not.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {"  starforge devices", "  starforge devices --json", "  starforge devices --device cuda"},
        sortOptions = false)
final class DevicesCommand implements Callable<Integer> {
    private static final String RULE = "=".repeat(70);
    private static final int COLUMNS = 80;

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--device",
            defaultValue = "auto",
            paramLabel = "NAME",
            description = "Device to select, as in other commands. Fails if it is not available. Default: auto.")
    private String name;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() {
        PrintWriter out = spec.commandLine().getOut();
        List<Backend> backends = Selection.backends();
        Selection selection = DeviceSelectionFlags.choose(name, spec.commandLine());
        if (json) {
            ReportOutput.json(out, describe(backends, selection));
        } else {
            summary(out, backends, selection);
        }
        return 0;
    }

    private static void summary(PrintWriter out, List<Backend> backends, Selection selection) {
        Probe probe = selection.backend().probe();
        Probe.DetectedDevice device = probe.devices().getFirst();
        out.println(RULE);
        out.println("Device Backend Summary");
        out.println(RULE);
        line(out, "Platform: ", platform());
        line(out, "Device: ", selection.backend().name() + " (" + device.name() + ", " + device.detail() + ")");
        line(out, "Attention Backend: ", device.attention() + " (" + device.attentionReason() + ")");
        boolean gpu = List.of("cuda", "metal").contains(selection.backend().name());
        line(
                out,
                gpu ? "Max VRAM: " : "Memory: ",
                String.format(
                        Locale.ROOT, "%.1f GB%s", device.memoryBytes() / 1e9, device.unified() ? " (unified)" : ""));
        line(out, "Supports bf16: ", device.computes().contains(DType.BF16) ? "True" : "False");
        line(out, "Metal FlashAttention: ", "False");
        out.println(RULE);
        line(out, "Chosen: ", selection.backend().name() + " - " + selection.reason());
        for (Backend backend : backends) {
            if (selection.others().containsKey(backend.name())) {
                line(
                        out,
                        "Not chosen: ",
                        backend.name() + " - "
                                + selection
                                        .others()
                                        .getOrDefault(
                                                backend.name(), backend.probe().reason()));
            }
        }
        Environment.system().unheeded().forEach(note -> line(out, "Note: ", note));
        out.flush();
    }

    /** Prints text on lines of at most 80 columns. */
    private static void line(PrintWriter out, String label, String text) {
        Terminal.wrap(label, text, COLUMNS).forEach(out::println);
    }

    private static ObjectNode describe(List<Backend> backends, Selection selection) {
        ObjectNode root = Jackson.object();
        root.put("platform", platform());
        root.put("architecture", System.getProperty("os.arch"));
        root.put("selected", selection.backend().name());
        root.put("reason", selection.reason());
        ArrayNode list = root.putArray("backends");
        for (Backend backend : backends) {
            Probe probe = backend.probe();
            ObjectNode node = list.addObject();
            node.put("name", backend.name());
            node.put("available", !probe.devices().isEmpty());
            node.put("status", backend.name().equals("metal") ? "pre-release" : "ready");
            node.put("reason", probe.reason());
            ArrayNode devices = node.putArray("devices");
            for (Probe.DetectedDevice found : probe.devices()) {
                devices.addObject()
                        .put("index", found.index())
                        .put("name", found.name())
                        .put("memory_bytes", found.memoryBytes())
                        .put(
                                "free_bytes",
                                MachineFacts.of(backend.name(), found).freeBytes())
                        .put("unified_memory", found.unified())
                        .put("supports_bf16", found.computes().contains(DType.BF16))
                        .put("attention", found.attention())
                        .put("attention_reason", found.attentionReason())
                        .put("detail", found.detail());
            }
        }
        return root;
    }

    private static String platform() {
        String os = System.getProperty("os.name");
        return os.startsWith("Mac") ? "Darwin" : os.startsWith("Windows") ? "Windows" : os;
    }
}
