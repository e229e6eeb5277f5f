package dev.starforge.data.dataset;

import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * The mappers of this package, made when they are first asked for: they take a tenth of the time in which a short history
 * is read, and a new dataset needs none before it is.
 */
final class Jackson {
    static final JsonMapper JSON = new JsonMapper();
    static final JsonMapper INDENTED =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

    private Jackson() {}
}
