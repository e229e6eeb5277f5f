package dev.starforge.serve.pool.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.pool.process.CommandRunner.CommandOutput;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Which worker a machine gets, from what its own tools print. */
final class DeploymentTest {
    private static final String MEMINFO = """
        MemTotal:       65758208 kB
        MemFree:        1203400 kB
        MemAvailable:   48230016 kB
        """;
    private static final String NVIDIA_SMI = """
        0, NVIDIA GeForce RTX 4090, 24564, 23010
        1, NVIDIA H200, 143771, 143161
        """;
    private static final String LSPCI_INTEL =
            "00:02.0 VGA compatible controller: Intel Corporation Raptor Lake-S GT1 [UHD Graphics 770] (rev 04)\n";
    private static final String LSPCI_AMD =
            "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon RX 7900 XT/7900"
                    + " XTX] (rev c8)\n";
    private static final String LSPCI_NVIDIA =
            "01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)\n"
                    + "02:00.0 3D controller: NVIDIA Corporation GH100 [H200 SXM 141GB] (rev a1)\n"
                    + "04:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 52)\n"
                    + "05:00.0 Ethernet controller: Intel Corporation I350\n";
    private static final String SYSCTL_APPLE = """
        hw.memsize: 34359738368
        hw.optional.arm64: 1
        machdep.cpu.brand_string: Apple M1 Pro
        """;
    private static final String DISPLAYS_APPLE = """
        Graphics/Displays:

            Apple M1 Pro:

              Chipset Model: Apple M1 Pro
              Type: GPU
              Bus: Built-In
              Total Number of Cores: 16
              Vendor: Apple (0x106b)
              Metal Support: Metal 3
        """;
    private static final String SYSCTL_INTEL = """
        hw.memsize: 17179869184
        machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz
        """;
    private static final String DISPLAYS_INTEL = """
        Graphics/Displays:

            Intel UHD Graphics 630:

              Chipset Model: Intel UHD Graphics 630
              Bus: Built-In
              VRAM (Dynamic, Max): 1536 MB

            Radeon Pro 5300M:

              Chipset Model: AMD Radeon Pro 5300M
              Bus: PCIe
        """;
    private static final String WINDOWS = """


        Name                      : Intel(R) Core(TM) i9-13900K
        NumberOfCores             : 24

        Name                : DESKTOP-7
        TotalPhysicalMemory : 68429029376

        Name       : NVIDIA GeForce RTX 4090
        AdapterRAM : 4293918720

        Name       : Microsoft Basic Display Adapter
        AdapterRAM : 0

        """;

    private static final PoolDevice CPU = new PoolDevice(DeviceKind.CPU, 0, "a processor", 1000, 600);
    private static final DeviceDiscovery.FoundDevices CPU_ALONE =
            new DeviceDiscovery.FoundDevices(List.of(CPU), DeviceKind.CPU);

    private static DeviceDiscovery.FoundDevices with(DeviceKind kind, String name) {
        return new DeviceDiscovery.FoundDevices(List.of(CPU, new PoolDevice(kind, 0, name, 1000, 600)), kind);
    }

    @Test
    void linux() {
        Deployment plain = Deployment.of(ProbeParsers.linux("x86_64\n", MEMINFO, LSPCI_INTEL, ""), CPU_ALONE);
        assertThat(plain.kind()).isEqualTo(DeviceKind.CPU);
        assertThat(plain.rejected()).singleElement().asString().contains("UHD Graphics 770", "expected an NVIDIA GPU");
        MachineInfo machine = ProbeParsers.linux("x86_64\n", MEMINFO, LSPCI_NVIDIA, NVIDIA_SMI);
        assertThat(machine.memory()).isEqualTo(65758208L << 10);
        Deployment nvidia = Deployment.of(machine, with(DeviceKind.CUDA, "NVIDIA H200"));
        assertThat(nvidia.kind()).isEqualTo(DeviceKind.CUDA);
        assertThat(nvidia.rejected()).isEmpty();
        assertThat(nvidia.text()).isEqualTo("--device cuda: NVIDIA H200");
        assertThat(Deployment.of(ProbeParsers.linux("aarch64\n", MEMINFO, "", ""), CPU_ALONE)
                        .text())
                .isEqualTo("--device cpu: a processor");
    }

    @Test
    void aGpuThatNoBackendOffersIsUnused() {
        Deployment without =
                Deployment.of(ProbeParsers.linux("x86_64\n", MEMINFO, LSPCI_NVIDIA, NVIDIA_SMI), CPU_ALONE);
        assertThat(without.kind()).isEqualTo(DeviceKind.CPU);
        assertThat(without.rejected())
                .hasSize(2)
                .first()
                .isEqualTo("NVIDIA GeForce RTX 4090: workers cannot use it; run `starforge devices` for the reason");
        Deployment apple = Deployment.of(ProbeParsers.macOs(SYSCTL_APPLE, DISPLAYS_APPLE), CPU_ALONE);
        assertThat(apple.text()).startsWith("--device cpu: a processor; unused: [Apple M1 Pro: workers cannot");
    }

    @Test
    void aUsableGpuIsNotRejectedWithoutItsTool() {
        MachineInfo machine = ProbeParsers.linux("x86_64\n", MEMINFO, LSPCI_NVIDIA, "");
        assertThat(Deployment.of(machine, with(DeviceKind.CUDA, "NVIDIA H200")).rejected())
                .isEmpty();
    }

    @Test
    void amdIsRejectedByName() {
        Deployment amd = Deployment.of(ProbeParsers.linux("x86_64\n", MEMINFO, LSPCI_AMD, ""), CPU_ALONE);
        assertThat(amd.kind()).isEqualTo(DeviceKind.CPU);
        assertThat(amd.rejected())
                .singleElement()
                .asString()
                .contains("Radeon RX 7900 XT", "AMD GPUs are not supported");
    }

    @Test
    void anNvidiaGpuWithoutItsDriverIsReported() {
        Deployment none = Deployment.of(
                ProbeParsers.linux(
                        "x86_64\n",
                        MEMINFO,
                        LSPCI_NVIDIA,
                        "NVIDIA-SMI has failed because it couldn't communicate with the driver\n"),
                CPU_ALONE);
        assertThat(none.kind()).isEqualTo(DeviceKind.CPU);
        assertThat(none.rejected()).hasSize(2).allMatch(each -> each.endsWith("install NVIDIA's driver"));
    }

    @Test
    void macOs() {
        MachineInfo apple = ProbeParsers.macOs(SYSCTL_APPLE, DISPLAYS_APPLE);
        assertThat(apple.memory()).isEqualTo(32L << 30);
        Deployment metal = Deployment.of(apple, with(DeviceKind.METAL, "Apple M1 Pro"));
        assertThat(metal.kind()).isEqualTo(DeviceKind.METAL);
        assertThat(metal.reason()).contains("M1 Pro");
        assertThat(metal.rejected()).isEmpty();
        assertThat(metal.report().toString())
                .isEqualTo("{\"capabilities\":[\"metal\"],\"device\":\"apple_silicon_gpu\",\"backend\":\"metal\","
                        + "\"memory_architecture\":\"unified\",\"status\":\"pre-release\"}");
        Deployment intel = Deployment.of(ProbeParsers.macOs(SYSCTL_INTEL, DISPLAYS_INTEL), CPU_ALONE);
        assertThat(intel.kind()).isEqualTo(DeviceKind.CPU);
        assertThat(intel.rejected())
                .containsExactly(
                        "Intel UHD Graphics 630: an Intel Mac: Metal workers need Apple silicon",
                        "AMD Radeon Pro 5300M: AMD GPUs are not supported");
        assertThat(intel.report().path("status").asString()).isEqualTo("ready");
    }

    @Test
    void windows() {
        MachineInfo machine = ProbeParsers.windows(WINDOWS, NVIDIA_SMI);
        assertThat(machine.processor()).contains("i9-13900K");
        assertThat(machine.memory()).isEqualTo(68429029376L);
        assertThat(Deployment.of(machine, with(DeviceKind.CUDA, "NVIDIA GeForce RTX 4090"))
                        .kind())
                .isEqualTo(DeviceKind.CUDA);
        Deployment plain = Deployment.of(
                ProbeParsers.windows(WINDOWS.replace("NVIDIA GeForce RTX 4090", "AMD Radeon 780M"), ""), CPU_ALONE);
        assertThat(plain.kind()).isEqualTo(DeviceKind.CPU);
        assertThat(plain.rejected()).singleElement().asString().contains("AMD Radeon 780M");
    }

    private static final String DEVICES = """
        {"selected": "cuda", "backends": [
          {"name": "cuda", "devices": [{"index": 0, "name": "NVIDIA GeForce RTX 4090", "memory_bytes": 25757220864},
                                       {"index": 1, "name": "NVIDIA H200", "memory_bytes": 150754820096}]},
          {"name": "cpu", "devices": [{"index": 0, "name": "AMD EPYC", "memory_bytes": 1000, "free_bytes": 600}]},
          {"name": "reference", "devices": [{"index": 0, "name": "host", "memory_bytes": 1000}]}]}\
        """;

    @Test
    void devicesComeFromAChildAndFreeMemoryFromNvidiasTool() throws Exception {
        DeviceDiscovery devices = new DeviceDiscovery(
                (command, _) -> new CommandOutput(0, command.contains("devices") ? DEVICES : NVIDIA_SMI, ""),
                List.of("starforge"));
        DeviceDiscovery.FoundDevices found = devices.find();
        assertThat(found.preferred()).isEqualTo(DeviceKind.CUDA);
        assertThat(found.devices()).extracting(PoolDevice::id).containsExactly("cuda:0", "cuda:1", "cpu");
        assertThat(found.devices()).extracting(PoolDevice::free).containsExactly(23010L << 20, 143161L << 20, 600L);
    }

    @Test
    void aFailingChildFallsBackToNvidiaSmi() throws Exception {
        DeviceDiscovery devices = new DeviceDiscovery(
                (command, _) -> command.contains("devices")
                        ? new CommandOutput(134, "", "a driver crashed\n")
                        : new CommandOutput(0, NVIDIA_SMI, ""),
                List.of("starforge"));
        assertThat(devices.find().devices()).extracting(PoolDevice::id).containsExactly("cuda:0", "cuda:1");
        DeviceDiscovery neither =
                new DeviceDiscovery((_, _) -> new CommandOutput(134, "", "a driver crashed\n"), List.of("starforge"));
        assertThatThrownBy(neither::find).isInstanceOf(IOException.class).hasMessage("devices: a driver crashed");
        DeviceDiscovery nonsense =
                new DeviceDiscovery((_, _) -> new CommandOutput(0, "no JSON", ""), List.of("starforge"));
        assertThatThrownBy(nonsense::find).hasMessageContaining("expected the JSON of `starforge devices --json`");
    }

    private static Optional<MachineInfo> machine(Map<String, String> tools) throws InterruptedException {
        return new DeviceDiscovery(
                        (command, _) -> {
                            String said = tools.get(command.getFirst() + command.get(command.size() - 1));
                            if (said == null) {
                                throw new IOException("Cannot run program \"" + command.getFirst() + "\"");
                            }
                            return new CommandOutput(0, said, "");
                        },
                        List.of("starforge"))
                .machine();
    }

    @Test
    void theMachineIsDescribedByItsTools() throws Exception {
        Map<String, String> linux = Map.of(
                "uname-s", "Linux\n", "uname-m", "x86_64\n", "cat/proc/meminfo", MEMINFO, "lspcilspci", LSPCI_AMD);
        Deployment amd = Deployment.of(machine(linux).orElseThrow(), CPU_ALONE);
        assertThat(amd.text())
                .startsWith("--device cpu: a processor; unused: [")
                .contains("Radeon");
        assertThat(amd.json().path("rejected").path(0).asString()).endsWith(": AMD GPUs are not supported");
        Map<String, String> mac = Map.of(
                "uname-s",
                "Darwin\n",
                "sysctlmachdep.cpu",
                SYSCTL_APPLE,
                "system_profilerSPDisplaysDataType",
                DISPLAYS_APPLE);
        assertThat(machine(mac).orElseThrow().apple()).isEqualTo("Apple M1 Pro");
        String cim =
                "powershellGet-CimInstance Win32_Processor, Win32_ComputerSystem, Win32_VideoController | Format-List";
        assertThat(machine(Map.of(cim, WINDOWS, "nvidia-smi--format=csv,noheader,nounits", NVIDIA_SMI))
                        .orElseThrow()
                        .nvidia())
                .hasSize(2);
        assertThat(machine(Map.of("uname-s", "SunOS\n"))).isEmpty();
        assertThat(machine(Map.of())).isEmpty();
    }
}
