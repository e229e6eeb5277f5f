package dev.starforge.data.dataset.filter;

import dev.starforge.data.dataset.redact.Redactor;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** Which licence holds for which folder, by the licence files of a tree; the nearest one above a file decides. */
public final class FolderLicenses {
    static final String UNKNOWN = "unknown";

    private static final Pattern FILE =
            Pattern.compile("(?:license|licence|copying|unlicense)(?:[-.][a-z0-9.+-]*)?(?:\\.(?:md|txt|rst))?");
    private static final Set<String> PERMISSIVE = Set.of(
            "MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unlicense", "Zlib", "BSL-1.0", "CC0-1.0");

    /** Sentences of licences, the more special first. */
    private static final Map<String, List<String>> SIGNS = new LinkedHashMap<>();

    static {
        SIGNS.put("AGPL-3.0", List.of("gnu affero general public license"));
        SIGNS.put("LGPL-2.1", List.of("gnu lesser general public license", "version 2.1"));
        SIGNS.put("LGPL-3.0", List.of("gnu lesser general public license"));
        SIGNS.put("GPL-2.0", List.of("gnu general public license", "version 2"));
        SIGNS.put("GPL-3.0", List.of("gnu general public license"));
        SIGNS.put("MPL-2.0", List.of("mozilla public license"));
        SIGNS.put("EPL-2.0", List.of("eclipse public license"));
        SIGNS.put("Apache-2.0", List.of("apache license", "version 2.0"));
        SIGNS.put("BSL-1.0", List.of("boost software license"));
        SIGNS.put("Unlicense", List.of("this is free and unencumbered software released into the public domain"));
        SIGNS.put("CC0-1.0", List.of("cc0 1.0 universal"));
        SIGNS.put("ISC", List.of("permission to use, copy, modify, and/or distribute this software for any purpose"));
        SIGNS.put("MIT", List.of("permission is hereby granted, free of charge"));
        SIGNS.put("BSD-3-Clause", List.of("redistribution and use in source and binary forms", "neither the name"));
        SIGNS.put("BSD-2-Clause", List.of("redistribution and use in source and binary forms"));
        SIGNS.put("Zlib", List.of("this software is provided 'as-is'", "altered source versions"));
    }

    private final Map<String, String> byFolder = new TreeMap<>();

    public static boolean isLicence(String path) {
        return FILE.matcher(path.substring(path.lastIndexOf('/') + 1).toLowerCase(Locale.ROOT))
                .matches();
    }

    public void add(String path, String text) {
        String folded = text.toLowerCase(Locale.ROOT).replaceAll("\\s+", " ");
        String licence = SIGNS.entrySet().stream()
                .filter(entry -> entry.getValue().stream().allMatch(folded::contains))
                .map(Map.Entry::getKey)
                .findFirst()
                .orElse(UNKNOWN);
        byFolder.merge(
                path.substring(0, path.lastIndexOf('/') + 1),
                licence,
                (one, other) -> one.equals(UNKNOWN) ? other : one);
    }

    /** Folders, each with a slash at its end but for the top, and their licences. */
    public Map<String, String> found() {
        Map<String, String> found = new TreeMap<>();
        byFolder.forEach((folder, licence) -> found.put(Redactor.path(folder), licence));
        return found;
    }

    public boolean permissive(String path) {
        for (int slash = path.lastIndexOf('/'); ; slash = path.lastIndexOf('/', slash - 1)) {
            String licence = byFolder.get(path.substring(0, slash + 1));
            if (licence != null) {
                return PERMISSIVE.contains(licence);
            }
            if (slash < 0) {
                return false;
            }
        }
    }
}
