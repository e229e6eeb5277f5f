package dev.starforge.serve.pool.device;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** Parses the output of system tools. Unknown lines are ignored. */
public final class ProbeParsers {
    /** The command whose output {@link #nvidiaSmi} parses. */
    public static final List<String> NVIDIA_SMI =
            List.of("nvidia-smi", "--query-gpu=index,name,memory.total,memory.free", "--format=csv,noheader,nounits");

    private static final String GPU_CLASSES =
            "(?i).*(VGA compatible controller|3D controller|Display controller).*?: (.*)";
    private static final Pattern LSPCI = Pattern.compile(GPU_CLASSES);

    private ProbeParsers() {}

    /** Parses GPUs of nvidia-smi from CSV; memory is in MiB. A GPU without a memory size, as under MIG, gets 0. */
    public static List<PoolDevice> nvidiaSmi(String csv) {
        List<PoolDevice> found = new ArrayList<>();
        for (String line : csv.lines().toList()) {
            String[] fields = line.split(",", -1);
            if (fields.length != 4 || !fields[0].strip().matches("[0-9]{1,3}")) {
                continue;
            }
            found.add(new PoolDevice(
                    DeviceKind.CUDA,
                    Integer.parseInt(fields[0].strip()),
                    fields[1].strip(),
                    mebibytes(fields[2]),
                    mebibytes(fields[3])));
        }
        return found;
    }

    private static long mebibytes(String field) {
        String digits = field.strip().replaceAll("(?i) *MiB$", "");
        return digits.matches("[0-9]{1,9}") ? Long.parseLong(digits) << 20 : 0;
    }

    /** Linux: {@code uname -m}, {@code /proc/meminfo}, {@code lspci} and {@link #NVIDIA_SMI}; the last two may be empty. */
    public static MachineInfo linux(String uname, String meminfo, String lspci, String nvidiaSmi) {
        List<PoolDevice> nvidia = nvidiaSmi(nvidiaSmi);
        return new MachineInfo(
                "Linux",
                isArm(uname),
                uname.strip(),
                value(meminfo, "MemTotal").map(ProbeParsers::kibibytes).orElse(0L),
                nvidia,
                "",
                unusable(
                        lspci.lines()
                                .map(LSPCI::matcher)
                                .filter(Matcher::matches)
                                .map(match -> match.group(2)),
                        nvidia));
    }

    /** macOS: {@code sysctl hw machdep.cpu} and {@code system_profiler SPDisplaysDataType}. */
    public static MachineInfo macOs(String sysctl, String systemProfiler) {
        String processor = value(sysctl, "machdep.cpu.brand_string").orElse("");
        boolean apple = processor.startsWith("Apple")
                || value(sysctl, "hw.optional.arm64").orElse("0").equals("1");
        List<String> gpus = systemProfiler
                .lines()
                .flatMap(line -> value(line, "Chipset Model").stream())
                .toList();
        return new MachineInfo(
                "macOS",
                apple,
                processor,
                value(sysctl, "hw.memsize").map(Long::parseLong).orElse(0L),
                List.of(),
                gpus.stream().filter(gpu -> gpu.startsWith("Apple")).findFirst().orElse(""),
                gpus.stream().filter(gpu -> !gpu.startsWith("Apple")).toList());
    }

    /**
     * Windows: the value lists of {@code Get-CimInstance Win32_Processor, Win32_ComputerSystem, Win32_VideoController |
     * Format-List} and {@link #NVIDIA_SMI}.
     */
    public static MachineInfo windows(String cim, String nvidiaSmi) {
        List<PoolDevice> nvidia = nvidiaSmi(nvidiaSmi);
        String processor = "";
        List<String> gpus = new ArrayList<>();
        String name = "";
        for (String line : cim.lines().toList()) {
            name = value(line, "Name").orElse(name);
            if (value(line, "AdapterRAM").isPresent()) {
                gpus.add(name);
            } else if (value(line, "NumberOfCores").isPresent()) {
                processor = name;
            }
        }
        return new MachineInfo(
                "Windows",
                processor.toUpperCase(Locale.ROOT).contains("ARM"),
                processor,
                value(cim, "TotalPhysicalMemory").map(Long::parseLong).orElse(0L),
                nvidia,
                "",
                unusable(gpus.stream(), nvidia));
    }

    /** GPUs without those that nvidia-smi lists, and without display-only adapters. */
    private static List<String> unusable(Stream<String> gpus, List<PoolDevice> nvidia) {
        return gpus.filter(gpu -> !gpu.toUpperCase(Locale.ROOT).contains("NVIDIA") || nvidia.isEmpty())
                .filter(gpu -> !gpu.matches("(?i).*(aspeed|matrox|basic display|virtio|qxl|vmware|cirrus).*"))
                .toList();
    }

    private static boolean isArm(String uname) {
        return uname.strip().equals("aarch64") || uname.strip().equals("arm64");
    }

    private static long kibibytes(String text) {
        return Long.parseLong(text.replaceAll("[^0-9]", "")) << 10;
    }

    /** The value of a line {@code NAME: VALUE}. */
    private static Optional<String> value(String text, String name) {
        Matcher match = Pattern.compile("(?m)^\\s*" + Pattern.quote(name) + "\\s*[:=]\\s*(.*?)\\s*$")
                .matcher(text);
        return match.find() ? Optional.of(match.group(1)) : Optional.empty();
    }
}
