package dev.starforge.data.dataset.filter;

import dev.starforge.data.dataset.redact.Redactor;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** The licenses of a tree's folders, recognized by the text of license files; the nearest one above a file applies. */
public final class FolderLicenses {
    static final String UNKNOWN = "unknown";

    private static final Pattern FILE =
            Pattern.compile("(?:license|licence|copying|unlicense)(?:[-.][a-z0-9.+-]*)?(?:\\.(?:md|txt|rst))?");
    private static final Set<String> PERMISSIVE = Set.of(
            "MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unlicense", "Zlib", "BSL-1.0", "CC0-1.0");

    /** Phrases that identify a license, the more specific licenses first. */
    private static final Map<String, List<String>> PHRASES = new LinkedHashMap<>();

    static {
        PHRASES.put("AGPL-3.0", List.of("gnu affero general public license"));
        PHRASES.put("LGPL-2.1", List.of("gnu lesser general public license", "version 2.1"));
        PHRASES.put("LGPL-3.0", List.of("gnu lesser general public license"));
        PHRASES.put("GPL-2.0", List.of("gnu general public license", "version 2"));
        PHRASES.put("GPL-3.0", List.of("gnu general public license"));
        PHRASES.put("MPL-2.0", List.of("mozilla public license"));
        PHRASES.put("EPL-2.0", List.of("eclipse public license"));
        PHRASES.put("Apache-2.0", List.of("apache license", "version 2.0"));
        PHRASES.put("BSL-1.0", List.of("boost software license"));
        PHRASES.put("Unlicense", List.of("this is free and unencumbered software released into the public domain"));
        PHRASES.put("CC0-1.0", List.of("cc0 1.0 universal"));
        PHRASES.put("ISC", List.of("permission to use, copy, modify, and/or distribute this software for any purpose"));
        PHRASES.put("MIT", List.of("permission is hereby granted, free of charge"));
        PHRASES.put("BSD-3-Clause", List.of("redistribution and use in source and binary forms", "neither the name"));
        PHRASES.put("BSD-2-Clause", List.of("redistribution and use in source and binary forms"));
        PHRASES.put("Zlib", List.of("this software is provided 'as-is'", "altered source versions"));
    }

    private final Map<String, String> byFolder = new TreeMap<>();

    public static boolean isLicense(String path) {
        return FILE.matcher(path.substring(path.lastIndexOf('/') + 1).toLowerCase(Locale.ROOT))
                .matches();
    }

    public void add(String path, String text) {
        String folded = text.toLowerCase(Locale.ROOT).replaceAll("\\s+", " ");
        String license = PHRASES.entrySet().stream()
                .filter(entry -> entry.getValue().stream().allMatch(folded::contains))
                .map(Map.Entry::getKey)
                .findFirst()
                .orElse(UNKNOWN);
        byFolder.merge(
                path.substring(0, path.lastIndexOf('/') + 1),
                license,
                (one, other) -> one.equals(UNKNOWN) ? other : one);
    }

    /** License by folder; a folder ends with a slash, and the root is empty. */
    public Map<String, String> found() {
        Map<String, String> found = new TreeMap<>();
        byFolder.forEach((folder, license) -> found.put(Redactor.path(folder), license));
        return found;
    }

    public boolean permissive(String path) {
        for (int slash = path.lastIndexOf('/'); ; slash = path.lastIndexOf('/', slash - 1)) {
            String license = byFolder.get(path.substring(0, slash + 1));
            if (license != null) {
                return PERMISSIVE.contains(license);
            }
            if (slash < 0) {
                return false;
            }
        }
    }
}
