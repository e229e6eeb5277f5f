package dev.starforge.serve.pool.device;

import dev.starforge.serve.pool.process.CommandRunner;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** Describes the machine with its system tools. Missing or failing tools are ignored. */
final class MachineProbe {
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final List<String> CIM = List.of(
            "powershell",
            "-NoProfile",
            "-Command",
            "Get-CimInstance Win32_Processor, Win32_ComputerSystem, Win32_VideoController | Format-List");

    private final CommandRunner commands;

    MachineProbe(CommandRunner commands) {
        this.commands = commands;
    }

    /** Empty for an unsupported system. */
    Optional<MachineInfo> machine() throws InterruptedException {
        return switch (output(List.of("uname", "-s")).strip()) {
            case "Linux" ->
                Optional.of(ProbeParsers.linux(
                        output(List.of("uname", "-m")),
                        output(List.of("cat", "/proc/meminfo")),
                        output(List.of("lspci")),
                        output(ProbeParsers.NVIDIA_SMI)));
            case "Darwin" ->
                Optional.of(ProbeParsers.macOs(
                        output(List.of("sysctl", "hw", "machdep.cpu")),
                        output(List.of("system_profiler", "SPDisplaysDataType"))));
            case "" -> windows(output(CIM), output(ProbeParsers.NVIDIA_SMI));
            default -> Optional.empty();
        };
    }

    private static Optional<MachineInfo> windows(String cim, String nvidiaSmi) {
        return cim.isBlank() ? Optional.empty() : Optional.of(ProbeParsers.windows(cim, nvidiaSmi));
    }

    private String output(List<String> command) throws InterruptedException {
        try {
            CommandRunner.CommandOutput printed = commands.run(command, TIMEOUT);
            return printed.code() == 0 ? printed.out() : "";
        } catch (IOException noTool) {
            return "";
        }
    }
}
