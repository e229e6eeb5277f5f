package dev.starforge.serve.pool.device;

import dev.starforge.serve.pool.process.CommandRunner;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** Asks a machine's own tools what it is. A tool that is not there, or fails, says nothing. */
final class MachineProbe {
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final List<String> CIM = List.of(
            "powershell",
            "-NoProfile",
            "-Command",
            "Get-CimInstance Win32_Processor, Win32_ComputerSystem, Win32_VideoController | Format-List");

    private final CommandRunner commands;

    MachineProbe(CommandRunner commands) {
        this.commands = commands;
    }

    /** Empty for a system that workers are not made for. */
    Optional<MachineInfo> machine() throws InterruptedException {
        return switch (said(List.of("uname", "-s")).strip()) {
            case "Linux" ->
                Optional.of(ProbeParsers.linux(
                        said(List.of("uname", "-m")),
                        said(List.of("cat", "/proc/meminfo")),
                        said(List.of("lspci")),
                        said(ProbeParsers.NVIDIA_SMI)));
            case "Darwin" ->
                Optional.of(ProbeParsers.macOs(
                        said(List.of("sysctl", "hw", "machdep.cpu")),
                        said(List.of("system_profiler", "SPDisplaysDataType"))));
            case "" -> windows(said(CIM), said(ProbeParsers.NVIDIA_SMI));
            default -> Optional.empty();
        };
    }

    private static Optional<MachineInfo> windows(String cim, String nvidiaSmi) {
        return cim.isBlank() ? Optional.empty() : Optional.of(ProbeParsers.windows(cim, nvidiaSmi));
    }

    private String said(List<String> command) throws InterruptedException {
        try {
            CommandRunner.CommandOutput printed = commands.run(command, PATIENCE);
            return printed.code() == 0 ? printed.out() : "";
        } catch (IOException noTool) {
            return "";
        }
    }
}
