package dev.starforge.data.dataset;

import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/** The mappers of this package. They take as long to make as a short history to read, so nothing asks for them before that. */
final class Jackson {
    static final JsonMapper JSON = new JsonMapper();
    static final JsonMapper INDENTED =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

    private Jackson() {}
}
