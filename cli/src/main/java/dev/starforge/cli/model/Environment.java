package dev.starforge.cli.model;

import dev.starforge.cli.hub.HubException;
import dev.starforge.cli.hub.ModelStore;
import dev.starforge.cli.hub.Proxies;
import dev.starforge.text.ErrorMessage;
import java.io.IOException;
import java.net.ProxySelector;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;

/**
 * Environment variables for the model store and the hub. Variables of HF's tools have the same meaning.
 *
 * @param user the home directory of the user
 */
public record Environment(Map<String, String> variables, Path user) {
    public static Environment system() {
        return new Environment(System.getenv(), Path.of(System.getProperty("user.home")));
    }

    private Optional<String> variable(String name) {
        return Optional.ofNullable(variables.get(name)).filter(value -> !value.isBlank());
    }

    /** The data folder of the user. */
    public Path home() {
        return variable("STARFORGE_HOME").map(Path::of).orElse(user.resolve(Path.of(".local", "share", "starforge")));
    }

    public ModelStore store() {
        List<Path> caches = new ArrayList<>();
        variable("HF_HUB_CACHE").map(Path::of).ifPresent(caches::add);
        variable("HF_HOME").map(home -> Path.of(home, "hub")).ifPresent(caches::add);
        caches.add(user.resolve(Path.of(".cache", "huggingface", "hub")));
        return new ModelStore(home().resolve("models"), List.copyOf(caches));
    }

    public URI endpoint() {
        String text = variable("HF_ENDPOINT").orElse("https://huggingface.co");
        try {
            return URI.create(text);
        } catch (IllegalArgumentException wrong) {
            throw new HubException("HF_ENDPOINT: expected https://HOST, got " + text, wrong);
        }
    }

    /** Returns true if the network must not be used. */
    public boolean offline() {
        return variable("HF_HUB_OFFLINE")
                .filter(value -> List.of("1", "true", "yes", "on").contains(value.toLowerCase(Locale.ROOT)))
                .isPresent();
    }

    /** The token of {@code HF_TOKEN}, or of the file that {@code hf auth login} writes. */
    public Optional<String> token() {
        if (variable("HF_TOKEN").isPresent()) {
            return variable("HF_TOKEN").map(String::strip);
        }
        Path file = variable("HF_TOKEN_PATH")
                .map(Path::of)
                .orElse(variable("HF_HOME")
                        .map(home -> Path.of(home, "token"))
                        .orElse(user.resolve(Path.of(".cache", "huggingface", "token"))));
        try {
            return Files.isRegularFile(file)
                    ? Optional.of(Files.readString(file).strip()).filter(text -> !text.isEmpty())
                    : Optional.empty();
        } catch (IOException failure) {
            throw new HubException(file + ": cannot read the token: " + ErrorMessage.of(failure), failure);
        }
    }

    /** Notes on variables that are set for similar programs and ignored by this one. */
    public List<String> unheeded() {
        List<String> notes = new ArrayList<>();
        for (String name : new TreeSet<>(variables.keySet())) {
            if (name.startsWith("PYTORCH_")) {
                notes.add(name
                        + " is ignored: Starforge does not use PyTorch. Operations without a native kernel run as their"
                        + " expansion on the same device, unless --no-fallback is given");
            } else if (name.startsWith("METAL_DE")) {
                notes.add(name + " is ignored by Starforge, but read by Metal");
            } else if (name.equals("RUST_LOG")) {
                notes.add("RUST_LOG is ignored; use --log-level");
            }
        }
        return notes;
    }

    public ProxySelector proxies() {
        return Proxies.of(this::variable);
    }
}
