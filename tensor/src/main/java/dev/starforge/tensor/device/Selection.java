package dev.starforge.tensor.device;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeMap;

/**
 * The backend chosen for a run, with the reasons for it and against the others. Fails if the requested device is not
 * available; there is no silent fallback.
 *
 * @param backend the chosen backend
 * @param reason why it was chosen
 * @param others for each other backend, why it was not chosen
 */
public record Selection(Backend backend, String reason, Map<String, String> others) {
    /** All backends on the module path, the preferred one first. */
    public static List<Backend> backends() {
        List<Backend> all = new ArrayList<>();
        ServiceLoader.load(Backend.class).forEach(all::add);
        all.sort(Comparator.comparingInt(Backend::preference).reversed().thenComparing(Backend::name));
        return all;
    }

    /** The named backend, or the most preferred one with a device when {@code name} is {@code auto}. */
    public static Selection choose(String name) {
        return choose(name, backends());
    }

    static Selection choose(String name, List<Backend> backends) {
        boolean auto = name.equals("auto");
        Map<String, String> others = new TreeMap<>();
        Backend chosen = null;
        String reason = "";
        for (Backend backend : backends) {
            boolean eligible = auto ? backend.preference() >= 0 : backend.name().equals(name);
            if (!eligible) {
                others.put(backend.name(), auto ? whyNotAutomatic(backend.probe()) : name + " was named");
                continue;
            }
            if (chosen != null) {
                others.put(backend.name(), chosen.name() + " is preferred");
                continue;
            }
            Probe probe = backend.probe();
            if (probe.devices().isEmpty()) {
                others.put(backend.name(), probe.reason());
            } else {
                chosen = backend;
                reason = auto ? probe.reason() : "named; " + probe.reason();
            }
        }
        if (chosen == null) {
            List<String> names = backends.stream().map(Backend::name).toList();
            throw new DeviceException(
                    names.contains(name) || auto
                            ? "device " + name + " is not available: " + (auto ? others : others.get(name))
                            : "device " + name + " is unknown; known are auto, " + String.join(", ", names));
        }
        return new Selection(chosen, reason, Map.copyOf(others));
    }

    /** A backend that is used only if named may not be available at all. */
    private static String whyNotAutomatic(Probe probe) {
        return probe.devices().isEmpty() ? probe.reason() : "only when named";
    }
}
